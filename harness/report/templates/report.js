// Sorting and filtering of tables. Everything is readable without this script.
(() => {
  "use strict";
  const collator = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });
  const FILTER_ABOVE = 15;
  const labels = [];

  const number = (cell) => parseFloat(cell.dataset.v ?? cell.textContent.trim().replace(/^\u2212/, "-"));

  // Cells without a number stay last in both directions.
  function order(column, numeric, sign) {
    return (a, b) => {
      const [x, y] = [a.cells[column], b.cells[column]];
      if (!numeric) return sign * collator.compare(x.textContent, y.textContent);
      const [p, q] = [number(x), number(y)];
      if (Number.isNaN(p) || Number.isNaN(q)) return Number.isNaN(p) - Number.isNaN(q);
      return sign * (p - q);
    };
  }

  // The heads of the single columns from left to right: a tall head stands in the first row, a grouped one below.
  function columnHeads(table) {
    const [top, below] = table.tHead.rows;
    const lower = below ? [...below.cells] : [];
    return [...top.cells].flatMap((head) => (head.scope === "colgroup" ? lower.splice(0, head.colSpan) : [head]));
  }

  function sortable(table) {
    const body = table.tBodies[0];
    const original = [...body.rows];
    if (original.length < 3) return;
    const heads = columnHeads(table);
    heads.forEach((head, column) => {
      const numeric = !head.classList.contains("t");
      const cycle = numeric ? ["descending", "ascending", "none"] : ["ascending", "descending", "none"];
      const button = document.createElement("button");
      const label = head.firstElementChild;
      button.type = "button";
      button.append(label);
      head.append(button);
      labels.push([button, label]);
      head.setAttribute("aria-sort", "none");
      button.addEventListener("click", () => {
        const now = head.getAttribute("aria-sort");
        const next = cycle[(cycle.indexOf(now) + 1) % 3];
        heads.forEach((other) => other.setAttribute("aria-sort", "none"));
        head.setAttribute("aria-sort", next);
        const sign = next === "ascending" ? 1 : -1;
        body.append(...(next === "none" ? original : [...original].sort(order(column, numeric, sign))));
      });
    });
  }

  function filterable(table, region) {
    const rows = [...table.tBodies[0].rows];
    if (rows.length <= FILTER_ABOVE) return;
    const label = document.createElement("label");
    const input = document.createElement("input");
    const status = document.createElement("span");
    const box = document.createElement("div");
    input.type = "search";
    status.setAttribute("role", "status");
    label.append("Filter rows ", input);
    box.className = "filter";
    box.append(label, status);
    region.before(box);
    const texts = rows.map((row) => row.textContent.toLowerCase());
    const apply = () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      rows.forEach((row, index) => {
        row.hidden = !words.every((word) => texts[index].includes(word));
        shown += !row.hidden;
      });
      status.textContent = words.length ? `${shown} of ${rows.length} rows` : `${rows.length} rows`;
    };
    input.addEventListener("input", apply);
    apply();
  }

  document.querySelectorAll(".region").forEach((region) => {
    const table = region.querySelector("table");
    sortable(table);
    filterable(table, region);
  });

  // What is wider than its place says so. Parts that are drawn later, and a window of another size, are seen too.
  const look = () => document.querySelectorAll(".region, .drawing").forEach((box) => {
    box.classList.toggle("sideways", box.scrollWidth > box.clientWidth + 1);
  });
  new MutationObserver(look).observe(document.querySelector("main"), { childList: true, subtree: true, attributeFilter: ["open", "hidden"] });
  addEventListener("resize", look);
  look();

  // A link to something inside a closed part opens it.
  function reveal() {
    let part = location.hash ? document.getElementById(location.hash.slice(1)) : null;
    const target = part;
    for (; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
    if (target) target.scrollIntoView();
  }
  addEventListener("hashchange", reveal);

  // Paper shows all parts; and browsers leave buttons out of a table head that they repeat on the next page.
  let closed = [];
  addEventListener("beforeprint", () => {
    labels.forEach(([button, label]) => button.before(label));
    closed = [...document.querySelectorAll("details:not([open])")];
    closed.forEach((part) => { part.open = true; });
  });
  addEventListener("afterprint", () => {
    labels.forEach(([button, label]) => button.append(label));
    closed.forEach((part) => { part.open = false; });
  });

  reveal();
})();
