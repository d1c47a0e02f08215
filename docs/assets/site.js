// What the theme leaves out for readers who use a keyboard or a screen reader.
document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
document.querySelector(".md-path")?.setAttribute("aria-label", "Breadcrumbs");
// Of a section that has a page, the theme names the link and leaves the switch beside it without a name.
for (const each of document.querySelectorAll("label.md-nav__link")) {
  if (!each.textContent.trim()) each.setAttribute("aria-label", each.parentElement.textContent.trim());
}
// The arrow keys scroll what has the focus; what does not scroll is no stop of the tabulator.
const reachable = () => {
  for (const each of document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset pre > code")) {
    if (each.scrollWidth > each.clientWidth) each.tabIndex = 0;
    else each.removeAttribute("tabindex");
  }
  // The theme puts each copy button into a landmark; each needs a name of its own.
  document.querySelectorAll("nav.md-code__nav").forEach((each, at) => each.setAttribute("aria-label", `Code ${at + 1}`));
};
reachable();
addEventListener("load", reachable);
addEventListener("resize", reachable);
new MutationObserver(reachable).observe(document.body, { childList: true, subtree: true });
// The copy button of a block of commands copies these, without the prompt and without what they print.
for (const each of document.querySelectorAll(".highlight code")) {
  const lines = each.textContent.split("\n");
  if (!lines[0].startsWith("$ ")) continue;
  let command = false;
  each.dataset.copy = lines
    .filter((line, at) => (command = line.startsWith("$ ") || (command && lines[at - 1].endsWith("\\"))))
    .map((line) => line.replace(/^\$ /, ""))
    .join("\n");
}
