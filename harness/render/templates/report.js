// Sorting, filtering and copying of tables. Everything is readable without this script.
// Compressed by zlib, in base 64.
function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).text();
}
(() => {
  "use strict";
  const collator = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });
  const FILTER_ABOVE = 15;
  const labels = [];

  // On a phone the contents would fill the first screen.
  if (matchMedia("(max-width: 39.99rem)").matches) document.querySelector("nav > details")?.removeAttribute("open");

  const number = (cell) => parseFloat(cell.dataset.v ?? cell.textContent.trim().replace(/^\u2212/, "-"));

  // Cells without a number stay last in both directions; equal ones keep the order of the report.
  function sorted(rows, column, numeric, sign) {
    const keys = new Map();
    if (numeric) rows.forEach((row) => keys.set(row, number(row.cells[column])));
    else {
      const texts = [...new Set(rows.map((row) => row.cells[column].textContent))].sort(collator.compare);
      const ranks = new Map(texts.map((text, rank) => [text, rank]));
      rows.forEach((row) => keys.set(row, ranks.get(row.cells[column].textContent)));
    }
    return [...rows].sort((a, b) => {
      const [p, q] = [keys.get(a), keys.get(b)];
      return Number.isNaN(p) || Number.isNaN(q) ? Number.isNaN(p) - Number.isNaN(q) : sign * (p - q);
    });
  }

  // The rows of a table: `all` in the order of the report, `order` as the reader sorted them. Of a long table, the page
  // has the first rows and the rest as markup, a row a line; the document has as many rows as the reader scrolled to.
  function rowsOf(region, table, markup) {
    const body = table.tBodies[0];
    const step = body.rows.length;
    const all = [...body.rows];
    const rest = markup ? markup.trim().split("\n") : [];
    const rows = { order: null, size: step + rest.length };
    const make = (count) => {
      const template = document.createElement("template");
      template.innerHTML = rest.splice(0, count).join(""); // written by the harness, which escapes all texts
      all.push(...template.content.children);
    };
    rows.all = () => {
      if (rest.length) make(rest.length);
      return all;
    };
    const prepare = () => {
      if (!rest.length) return;
      make(200);
      setTimeout(prepare);
    };
    setTimeout(prepare);
    rows.shown = () => (rows.order ?? rows.all()).filter((row) => !row.hidden);
    let limit = step;
    rows.draw = (most = step) => {
      limit = most;
      body.replaceChildren(...(markup ? rows.shown().slice(0, most) : rows.order ?? all));
    };
    if (markup) {
      region.addEventListener("scroll", () => {
        if (limit < rows.size && region.scrollTop + 2 * region.clientHeight > region.scrollHeight) {
          body.append(...rows.shown().slice(limit, limit + step));
          limit += step;
        }
      });
      addEventListener("beforeprint", () => rows.draw(Infinity));
      addEventListener("afterprint", () => rows.draw());
    }
    return rows;
  }

  // The heads of the single columns from left to right: a tall head stands in the first row, a grouped one below.
  function columnHeads(table) {
    const [top, below] = table.tHead.rows;
    const lower = below ? [...below.cells] : [];
    return [...top.cells].flatMap((head) => (head.scope === "colgroup" ? lower.splice(0, head.colSpan) : [head]));
  }

  function sortable(table, rows) {
    if (rows.size < 3) return;
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
        rows.order = next === "none" ? rows.all() : sorted(rows.all(), column, numeric, next === "ascending" ? 1 : -1);
        rows.draw();
      });
    });
  }

  function filterable(region, rows) {
    if (rows.size <= FILTER_ABOVE || region.closest(".listing")) return; // listings have filters of their own
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
    const all = `${rows.size.toLocaleString("en")} rows`;
    status.textContent = all;
    let texts = null; // read when they are asked for
    const apply = () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      texts ??= rows.all().map((row) => [...row.cells].map((cell) => cell.textContent).join(" ").toLowerCase());
      rows.all().forEach((row, index) => { row.hidden = !words.every((word) => texts[index].includes(word)); });
      status.textContent = words.length ? `${rows.shown().length.toLocaleString("en")} of ${all}` : all;
      rows.draw();
    };
    input.addEventListener("input", apply);
  }

  // What a cell says without its marks and letters of notes.
  function plain(cell) {
    const copy = cell.cloneNode(true);
    copy.querySelectorAll(".k").forEach((marks) => marks.remove());
    return copy.textContent.trim();
  }

  // The titles of single columns, each behind that of its group.
  function titles(table) {
    const groups = [...table.tHead.rows[0].cells].flatMap((head) =>
      Array(head.colSpan).fill(head.scope === "colgroup" ? `${head.textContent.trim()} / ` : "")
    );
    return columnHeads(table).map((head, column) => groups[column] + head.textContent.trim());
  }

  // Numbers at full precision; as in the CSV files, no text that a spreadsheet would run as a formula.
  const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/;
  const field = (text) => (/^[=+@\-\uff1d\uff0b\uff0d\uff20]/.test(text) && !NUMBER.test(text) ? `'${text}` : text);
  const tsv = (head, rows) =>
    [head, ...rows.map((row) => row.map((cell) => cell.dataset.v ?? plain(cell)))]
      .map((line) => `${line.map((text) => field(text.replace(/\s+/g, " "))).join("\t")}\n`)
      .join("");

  const ENTITIES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", "|": "&#124;" };
  const escaped = (text) => text.replace(/[\\`*_[\]{}#~$^]/g, "\\$&").replace(/[&<>|]/g, (char) => ENTITIES[char]);

  function marked(cell) {
    const text = escaped(plain(cell).replace(/^\u2212(?=[\d.])/, "-")); // as the page's Markdown has it
    const marks = [...cell.querySelectorAll(".m")].map((mark) => mark.textContent);
    const letter = cell.querySelector(".fn");
    return [cell.querySelector("strong") && text ? `**${text}**` : text, escaped(marks.join("")), letter ? `(${letter.textContent})` : ""]
      .filter(Boolean)
      .join(" ");
  }

  function markdown(head, rows, numeric) {
    const line = (cells) => `| ${cells.join(" | ")} |\n`;
    const rule = head.map((_, column) => (numeric[column] ? "---:" : ":---"));
    return [head.map(escaped), rule, ...rows.map((row) => row.map(marked))].map(line).join("");
  }

  // A page that is a file of its own may lack the clipboard's own interface; then a selection is copied.
  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = document.createElement("textarea");
      const focused = document.activeElement;
      area.value = text;
      area.className = "vh";
      document.body.append(area);
      area.select();
      const done = document.execCommand("copy");
      area.remove();
      focused?.focus();
      if (!done) throw new Error("not allowed");
    }
  }

  function copying(place, choices) {
    const box = document.createElement(place.tagName === "DD" ? "span" : "div");
    const status = document.createElement("span");
    box.className = "copy";
    status.setAttribute("role", "status");
    for (const [label, content] of choices) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = label;
      button.addEventListener("click", () => {
        copy(content()).then(
          () => { status.textContent = "copied"; },
          () => { status.textContent = "the browser does not allow it"; }
        );
      });
      box.append(button);
    }
    box.append(status);
    return box;
  }

  // The rows that are shown, in the order in which they are shown.
  function copyable(table, region, rows) {
    const head = titles(table);
    const numeric = columnHeads(table).map((cell) => !cell.classList.contains("t"));
    const cells = () => rows.shown().map((row) => [...row.cells]);
    const choices = [
      ["Copy as TSV", () => tsv(head, cells())],
      ["Copy as Markdown", () => markdown(head, cells(), numeric)],
    ];
    region.after(copying(region, choices));
  }

  document.querySelectorAll(".region").forEach(async (region) => {
    const table = region.querySelector("table");
    const note = region.nextElementSibling?.matches(".rest") ? region.nextElementSibling : null;
    let markup = "";
    if (note) {
      if (!("DecompressionStream" in window)) return; // a browser older than 2023: the note names the file with all rows
      markup = await unpacked(note.nextElementSibling.textContent);
      note.remove();
    }
    const rows = rowsOf(region, table, markup);
    copyable(table, region, rows);
    sortable(table, rows);
    filterable(region, rows);
  });

  // The button's label is its style's, so that rows are sorted, filtered and copied by their own text.
  document.querySelectorAll("td.w").forEach((cell) => {
    const command = cell.textContent;
    if (!command.startsWith("harness ")) return;
    const button = document.createElement("button");
    const label = (text) => button.setAttribute("aria-label", text);
    button.type = "button";
    button.className = "one";
    label("Copy");
    button.addEventListener("click", () => copy(command).then(() => label("copied"), () => label("not allowed")));
    cell.append(" ", button);
  });

  document.querySelectorAll(".facts dt").forEach((name) => {
    if (name.textContent !== "command") return;
    const value = name.nextElementSibling;
    const command = value.textContent;
    value.append(copying(value, [["Copy", () => command]]));
  });

  // What is wider than its place says so. Sizes are observed, not asked for: asking would lay out the page at once, and
  // parts that the browser leaves out of the layout until they are near. Parts that are drawn later are seen too.
  const content = (box) => (box.matches(".region") ? box.querySelector("table") : box.firstElementChild);
  const mark = (box) => box.classList.toggle("sideways", box.scrollWidth > box.clientWidth + 1);
  const sizes = new ResizeObserver((entries) => {
    const boxes = new Set(entries.map((entry) => entry.target.closest(".region, .drawing")));
    requestAnimationFrame(() => boxes.forEach(mark));
  });
  const seen = new WeakSet();
  const look = () => document.querySelectorAll(".region, .drawing").forEach((box) => {
    const inner = content(box);
    if (!inner || seen.has(inner)) return;
    seen.add(inner);
    sizes.observe(box);
    sizes.observe(inner);
  });
  new MutationObserver(look).observe(document.querySelector("main"), { childList: true, subtree: true });
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
