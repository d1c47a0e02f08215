// What the list of topics and the topic pages are made of: elements, tables, data, state.
// All texts of the data become text nodes or values of attributes that run nothing; nothing is parsed as markup.
const explorer = await (async () => {
  const root = document.querySelector(".explorer");
  if (!("DecompressionStream" in window)) {
    const words = "Your browser is older than 2023 and cannot read the topics; all else on this page is complete.";
    root.before(Object.assign(document.createElement("p"), { className: "notice", textContent: words }));
    await new Promise(() => {}); // without data there is nothing to draw
  }
  const data = JSON.parse(await unpacked(document.getElementById(`${root.id}-data`).textContent));
  const MATHML = "http://www.w3.org/1998/Math/MathML";
  const SVG = "http://www.w3.org/2000/svg";
  const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  const MOST_VALUES = 24; // an attribute with more values makes no slices
  const collator = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });

  // ---- elements

  function append(element, children) {
    element.append(...children.flat(3).filter((child) => child !== null && child !== undefined));
    return element;
  }

  function make(namespace, name, attributes, children) {
    const element = namespace ? document.createElementNS(namespace, name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes ?? {})) {
      if (typeof value === "function") element.addEventListener(key, value);
      else if (value !== null && value !== undefined && value !== false) element.setAttribute(key, value === true ? "" : value);
    }
    return append(element, children);
  }
  const h = (name, attributes, ...children) => make(null, name, attributes, children);
  const svg = (name, attributes, ...children) => make(SVG, name, attributes, children);
  const bdi = (text) => h("bdi", null, text);

  function mathml([kind, ...children]) {
    const [name, ...attributes] = data.kinds[kind];
    const element = document.createElementNS(MATHML, name);
    for (let i = 0; i < attributes.length; i += 2) element.setAttribute(attributes[i], attributes[i + 1]);
    element.append(...children.map((child) => (typeof child === "string" ? child : mathml(child))));
    return element;
  }

  function formula(place, inline) {
    const [latex, display, tree] = data.formulas[place];
    if (!tree) return h("code", { class: "tex", dir: "ltr" }, latex);
    const element = mathml(tree);
    element.setAttribute("dir", "ltr");
    element.setAttribute("display", display && !inline ? "block" : "inline");
    element.setAttribute("alttext", latex);
    return element;
  }

  const written = ({ collection }) => ({ lang: collection.language || null, dir: collection.direction });
  const prose = (text, inline) => text.map((part) => (typeof part === "number" ? formula(part, inline) : part));
  const plain = (text) => text.map((part) => (typeof part === "number" ? data.formulas[part][0] : part)).join("");

  // ---- data

  // Numbers of `width` digits: the first digits of all, then the second.
  function numbers(digits, width) {
    const length = digits.length / width;
    const out = new Array(length).fill(0);
    for (let i = 0; i < digits.length; i += 1) out[i % length] = out[i % length] * 64 + DIGITS.indexOf(digits[i]);
    return out;
  }

  const topics = data.collections.flatMap((collection) =>
    collection.topics.map((topic) => Object.assign(topic, {
      collection,
      words: `${topic.id} ${plain(topic.title)}`.toLowerCase(),
      slices: new Map([["collection", collection.name], ...topic.attributes]),
    })));
  const runNames = (where) => [...new Set(inside(where).flatMap((collection) => collection.runs))];
  const measures = (where) => new Map(inside(where).flatMap((collection) => collection.measures));
  const inside = (where) => data.collections.filter((collection) => !where || collection.name === where);

  function value(topic, run, measure) {
    const r = topic.collection.runs.indexOf(run);
    const m = topic.collection.measures.findIndex(([name]) => name === measure);
    const found = r < 0 || m < 0 ? null : topic.values[r][m];
    return found === null ? null : found / 100000;
  }

  const mean = (values) => (values.length ? values.reduce((sum, v) => sum + v, 0) / values.length : null);
  const known = (values) => values.filter((v) => v !== null);
  const fixed = (v) => (v === null ? "n/a" : v.toFixed(3).replace(/^-/, "\u2212"));
  const signed = (v) => (v === null ? "n/a" : `${v > 0 ? "+" : ""}${fixed(v)}`);
  const count = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;

  // The attributes that make slices, each with its values: degrees of a scale by degree, others by number and letter.
  const SCALES = ["none, very low, low, medium, high, very high", "very easy, easy, medium, hard, very hard"].map((scale) => scale.split(", "));
  function natural(values) {
    const scale = SCALES.find((degrees) => values.every((v) => degrees.includes(v.toLowerCase())));
    return values.sort(scale ? (p, q) => scale.indexOf(p.toLowerCase()) - scale.indexOf(q.toLowerCase()) : collator.compare);
  }

  function attributes(where) {
    const found = new Map();
    for (const topic of topics) {
      if (where && topic.collection.name !== where) continue;
      for (const [name, v] of topic.slices) found.set(name, (found.get(name) ?? new Set()).add(v));
    }
    return new Map([...found].filter(([, values]) => values.size > 1 && values.size <= MOST_VALUES)
      .map(([name, values]) => [name, natural([...values])]));
  }

  // ---- state; what differs from the start stands in the address

  const start = {
    where: data.collections.length > 1 ? "" : data.collections[0].name,
    measure: data.collections[0].measures[0][0],
    a: data.pair[0],
    b: data.pair[1],
    by: "topic",
    text: "", // the version of topics that is shown; else that of the runs
  };
  const state = { ...start, slices: new Map(), words: "", page: null, sort: { key: start.b ? "difference" : "a", sign: -1 } };
  const compared = () => state.b !== "";
  const label = () => measures("").get(state.measure) ?? state.measure;
  const encode = (text) => encodeURIComponent(text);

  function address(topic) {
    const parts = topic ? [`topic=${encode(topic.collection.name)}/${encode(topic.id)}`] : [`explore=${encode(state.where)}`];
    for (const key of ["measure", "a", "b", "text"]) if (state[key] !== start[key]) parts.push(`${key}=${encode(state[key])}`);
    if (!topic && state.by !== start.by) parts.push(`by=${state.by}`);
    if (!topic) state.slices.forEach((v, name) => parts.push(`is.${encode(name)}=${encode(v)}`));
    return `#${parts.join("&")}`;
  }

  function decode(text) {
    try { return decodeURIComponent(text); } catch { return text; }
  }

  // Whether the address is one of ours; then the state is as it says.
  function follow() {
    const query = new Map(location.hash.slice(1).split("&").map((part) => {
      const [name, ...rest] = part.split("=");
      return [decode(name), name === "topic" ? rest.join("=") : decode(rest.join("="))];
    }));
    if (!query.has("topic") && !query.has("explore")) return false;
    const [where, ...id] = (query.get("topic") ?? "").split("/").map(decode);
    state.page = topics.find((t) => t.collection.name === where && t.id === id.join("/")) ?? null;
    const named = query.get("explore");
    if (named !== undefined) {
      state.where = data.collections.some((collection) => collection.name === named) ? named : start.where;
      state.by = query.get("by") === "attribute" ? "attribute" : "topic";
      state.slices.clear();
      for (const [name, values] of attributes(state.where)) {
        if (values.includes(query.get(`is.${name}`))) state.slices.set(name, query.get(`is.${name}`));
      }
    }
    if (measures("").has(query.get("measure"))) state.measure = query.get("measure");
    for (const key of ["a", "b"]) if (runNames("").includes(query.get(key))) state[key] = query.get(key);
    const text = query.get("text");
    if (data.collections.some(({ versions }) => versions.some(({ name }) => name === text))) state.text = text;
    if (state.page && state.where && state.where !== where) state.where = where;
    return true;
  }

  // What the address says is what is shown, so that it can be handed on.
  function keep() {
    try { history.replaceState(null, "", address(state.page)); } catch { /* some browsers forbid it on files */ }
  }

  // ---- what several parts draw

  const AB = { a: "A", b: "B" };
  const badge = (key) => h("span", { class: `ab ${key}`, "aria-hidden": "true" }, AB[key]);
  const runHead = (key) => [badge(key), " ", bdi(state[key])];

  // A table whose columns sort. A column has key, head, value(row) and cell(row), and may be numeric, low (small numbers
  // are good), wide (left out on narrow screens), turned (its head stands upright), shade(row).
  function table(caption, columns, rows, sort, sorted) {
    const lines = new Map(rows.map((row) => [row, h("tr", { class: row.mark ?? null },
      columns.map((column, i) => h(i ? "td" : "th", {
        scope: i ? null : "row",
        class: [column.numeric ? "" : "t", column.wide ? "wide-only" : "", column.shade?.(row) ?? ""].join(" ").trim() || null,
      }, column.cell(row))))]));
    const body = h("tbody", null);
    const heads = new Map(columns.map((column) => {
      const button = h("button", {
        type: "button",
        click: () => {
          const first = column.numeric && !column.low ? -1 : 1;
          Object.assign(sort, { key: column.key, sign: sort.key === column.key ? -sort.sign : first });
          arrange();
        },
      }, column.head);
      const classes = [column.numeric ? "" : "t", column === columns[0] ? "c0" : "", column.wide ? "wide-only" : "", column.turned ? "turned" : ""];
      return [column, h("th", { scope: "col", class: classes.join(" ").trim() || null }, button)];
    }));
    function arrange() {
      const column = columns.find((c) => c.key === sort.key) ?? columns[0];
      heads.forEach((head, c) => head.setAttribute("aria-sort", c !== column ? "none" : sort.sign < 0 ? "descending" : "ascending"));
      const order = (p, q) => {
        const [x, y] = [column.value(p), column.value(q)];
        if (x === null || y === null) return (x === null) - (y === null);
        return sort.sign * (typeof x === "string" ? collator.compare(x, y) : x - y);
      };
      body.querySelectorAll("[aria-expanded]").forEach((button) => button.setAttribute("aria-expanded", "false"));
      const ordered = [...rows].sort(order);
      body.replaceChildren(...ordered.map((row) => lines.get(row)));
      sorted?.(ordered);
    }
    arrange();
    const all = h("table", null, h("caption", null, h("span", null, caption)), h("thead", null, h("tr", null, [...heads.values()])), body);
    return h("div", { class: `region${rows.length > 15 ? " long" : ""}`, role: "region", "aria-label": caption, tabindex: "0" }, all);
  }

  // A bar from 0 to a value of at most 1.
  const bar = (v) => (v === null ? null : svg("svg", { class: "bar", viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", { class: "plain", x: 0, width: Math.max(0, Math.min(1, v)) * 100, y: 1, height: 8 })));

  // A bar from the middle to the right where A is higher, to the left where B is.
  function differenceBar(difference, most) {
    if (difference === null) return null;
    const width = Math.max((Math.abs(difference) / most) * 50, difference ? 0.8 : 0);
    return svg("svg", { class: "bar", viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
      svg("rect", { class: difference < 0 ? "b" : "a", x: difference < 0 ? 50 - width : 50, width, y: 1, height: 8 }),
      svg("rect", { class: "axis", x: 49.5, width: 1, y: 0, height: 10 }));
  }

  return {
    root, data, topics, state, listed: topics,
    h, svg, bdi, written, prose, plain, numbers, runNames, measures, attributes, value, mean, known, fixed, signed, count,
    compared, label, address, follow, keep, badge, runHead, table, bar, differenceBar,
  };
})();
