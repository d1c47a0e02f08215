// What the theme leaves out for readers who use a keyboard or a screen reader.
document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
// The arrow keys scroll what has the focus; what does not scroll is no stop of the tabulator.
const reachable = () => {
  for (const each of document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset pre > code")) {
    if (each.scrollWidth > each.clientWidth) each.tabIndex = 0;
    else each.removeAttribute("tabindex");
  }
  // The theme puts each copy button into a landmark of its own.
  for (const each of document.querySelectorAll("nav.md-code__nav:not([role])")) each.setAttribute("role", "group");
};
reachable();
addEventListener("load", reachable);
addEventListener("resize", reachable);
new MutationObserver(reachable).observe(document.body, { childList: true, subtree: true });
