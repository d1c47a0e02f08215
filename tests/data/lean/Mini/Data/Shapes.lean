namespace Shapes.Plane

/-- A point of the plane. -/
@[ext] structure Point (α : Type*) where
  mk' ::
  /-- First coordinate. -/
  x : α
  /-- Second coordinate. -/
  (y : α := x)
  private label : String := "where"
  deriving Repr

structure Segment (α) extends Point α where
  first last : Point α

/-- Three colours, one with a shade. -/
inductive Colour
  | red | green (shade : Nat)
  /-- The last. -/
  | blue
  deriving DecidableEq

mutual

inductive IsEven : Nat → Prop
  | zero : IsEven 0
  | next {n : Nat} : IsOdd n → IsEven (n + 1)

inductive IsOdd : Nat → Prop where
  | next {n : Nat} : IsEven n → IsOdd (n + 1)

end

class inductive Inhabited' (α : Type*) : Prop
  | intro (a : α) : Inhabited' α

end Plane

open Plane (Colour)

/-- The shade of a colour. -/
def shadeOf : Colour → Nat
  | .green s => s
  | _ => go 0
where
  /-- No declaration of its own. -/
  go (n : Nat) : Nat := n

open Plane in theorem Plane.Point.x_eq (p : Point Nat) : p.x = p.x := rfl

abbrev Quote := '"'

theorem _root_.top_level {c : Char} (h : c ≠ '\'') : c ≠ Quote → c ≠ '"' := sorry

alias ⟨there, _⟩ := shade_iff
@[simp] alias back := top_level

example : shadeOf .red = 0 := rfl

theorem image' {α β : Type*} (f : α → β) (s : Set α) : f '' s = f ⁻¹' (f '' s) := sorry

theorem of_set : {p : Nat | p ∣ 6} = {1, 2, 3, 6} := by
  ext; simp
  open Nat in
  decide

local notation "theorem" => True

macro "lemma_like" : command => `(theorem made : True := trivial)

axiom trusted (n : ℕ) : ∃ m, m > n

theorem axiom_free ⦃α⦄ [h : Nonempty α] : ∃ _ : α, True := ⟨h.some, trivial⟩

end Shapes

/-- Added later. -/
add_decl_doc Shapes.of_set
