/-
Written for the tests of the extractor.
/- Comments nest: theorem not_this_one : True := trivial -/
def nor_this_one := 0
-/
import Mini.Data.Shapes

/-! # Groups of the tests

theorem in_a_module_doc : False := sorry
-/

universe u v

/-- A set with a product. -/
class Product (M : Type u) where
  /-- The product of two elements. -/
  prod : M → M → M

/-- A set with a sum. -/
class Summed (M : Type u) where
  sum : M → M → M

namespace Product

variable {M : Type u} {N : Type v} [Product M] [Product N] {x y : M}

/-- Two elements that
commute; see `Product.prod`. -/
@[to_additive (attr := simp) SumsAlike]
def Alike (x y : M) : Prop := prod x y = prod y x

section Maps

variable (f : M → N)

/-- A map that respects products. -/
structure RespectsProduct : Prop where
  /-- The product of images is
  the image of the product. -/
  map_prod : ∀ a b, f (prod a b) = prod (f a) (f b)

@[to_additive "Sums alike stay so. theorem in_a_string : True", deprecated (since := "2024-01-01")]
protected theorem Alike.map_mul (hf : RespectsProduct f) (h : Alike x y) : Alike (f x) (f y) := by
  -- theorem in_a_line_comment : True
  have «theorem in quotes» : "theorem in_another_string" ≠ "a \" quote" := by decide
  sorry

end Maps

@[to_additive existing]
theorem one_mul' : x = x := rfl

@[to_additive] theorem mul_prod_comm (z : M) :
    prod x z = prod z x →
      |(0 : Int)| = 0 := fun _ => rfl

private theorem hidden : x = x := rfl

omit [Product M] in
/-- With a variable that only the proof of a definition names. -/
def chosen : M → M
  | z => (fun (_ : N) => z) (by exact default)

end Product

section

variable (R : Type*) [Product R]

include R in
theorem with_include.{w} (T : Type w) : True := trivial

variable {R} in
lemma with_braces (r : R) : r = r := rfl

lemma with_parentheses (r : R) : let q := r; q = r := rfl

end

instance : Product Nat := ⟨Nat.mul⟩

instance (priority := low) natSum : Summed Nat where
  sum a b := a + b

noncomputable instance Product.ofFun {X : Type*} {M : Type u} [Product M] : Product (X → M) where
  prod f g x := Product.prod (f x) (g x)
