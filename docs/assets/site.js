// What the theme leaves out for readers who use a keyboard or a screen reader.
document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
const reachable = () => {
  for (const each of document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset pre > code")) each.tabIndex = 0;
};
reachable();
addEventListener("load", reachable);
new MutationObserver(reachable).observe(document.body, { childList: true, subtree: true });
