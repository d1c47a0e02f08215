// The page of one topic: its text, what the runs score, their rankings side by side, where the relevant documents are.
(() => {
  const {
    data, state, h, bdi, prose, plain, numbers, value, fixed, count, compared, label, address, badge,
    runHead, table, bar,
  } = explorer;

  const SHORT = 160; // characters

  // Documents with their grades, and what each run made of them.
  function open(topic) {
    const { width, runs, relevantFrom, link } = topic.collection;
    const ids = typeof topic.docs === "string" ? numbers(topic.docs, 4).map(String) : topic.docs;
    const grades = numbers(topic.grades, ids.length ? topic.grades.length / ids.length : 1);
    const best = Math.max(...data.collections.flatMap((c) => c.topics.flatMap((t) => t.judged.slice(0, 1).map(([g]) => g))), 0);
    const docs = ids.map((id, i) => {
      const grade = topic.judged[grades[i]]?.[0] ?? null;
      const level = grade === null ? "none" : grade <= 0 ? "0" : grade < relevantFrom ? "1" : grade < best ? "2" : "3";
      const address = link && link.replace("{id}", () => encodeURIComponent(id));
      return { id, grade, level, relevant: i < topic.relevant, address };
    });
    const firsts = topic.firsts.map((digits) => numbers(digits, width).map((place) => docs[place]));
    const ranks = topic.ranks.map((digits) => numbers(digits, width));
    // As [document, rank] pairs, one list with unjudged documents and one without.
    const all = firsts.map((list) => list.map((doc, i) => [doc, i + 1]));
    const scored = topic.judgedFirsts.map((digits) => {
      const flat = numbers(digits, width);
      return flat.filter((_, i) => i % 2 === 0).map((place, i) => [docs[place], flat[2 * i + 1]]);
    });
    return { docs, all, scored, ranks, run: (name) => runs.indexOf(name) };
  }

  const gradeText = (doc) => (doc.grade === null ? "not judged" : `grade ${doc.grade}`);
  const grade = (doc) => h("span", { class: `grade g${doc.level}`, title: gradeText(doc) },
    h("span", { "aria-hidden": "true" }, doc.grade === null ? "?" : String(doc.grade)), h("span", { class: "vh" }, gradeText(doc)));

  // The id of a document, a link where it has an address; where its text is known a button that shows it in a row below.
  function docName(doc) {
    const link = (attributes, ...text) => h("a", { href: doc.address, rel: "noreferrer", ...attributes }, text);
    if (!Object.hasOwn(data.documents, doc.id)) {
      return doc.address ? link({ class: "doc", "data-doc": doc.id }, bdi(doc.id)) : h("span", { class: "doc", "data-doc": doc.id }, bdi(doc.id));
    }
    const button = h("button", { type: "button", class: "doc", "data-doc": doc.id, "aria-expanded": "false", click: () => show(button, doc) }, bdi(doc.id));
    return doc.address ? [button, " ", link({ title: doc.address, "aria-label": `${doc.id} at its source` }, "\u2197")] : button;
  }

  // What a document is about, in a line: its title, or all of it if it is short.
  function gist(doc) {
    const [title, body] = data.documents[doc.id] ?? [[], []];
    const text = title.length ? title : plain(body).length <= SHORT ? body : [];
    return text.length ? h("span", { class: "title scroll", dir: "auto" }, prose(text, true)) : null;
  }

  function show(button, doc) {
    const row = button.closest("tr");
    const shown = button.getAttribute("aria-expanded") === "true";
    if (row.nextElementSibling?.classList.contains("text")) row.nextElementSibling.remove();
    row.querySelectorAll("[aria-expanded]").forEach((other) => other.setAttribute("aria-expanded", "false"));
    if (shown) return;
    button.setAttribute("aria-expanded", "true");
    const [title, body] = data.documents[doc.id];
    row.after(h("tr", { class: "text" }, h("td", { class: "t", colspan: String(row.cells.length) },
      h("div", { class: "read" }, h("p", null, grade(doc), " ", h("b", { dir: "auto" }, title.length ? prose(title, true) : doc.id)),
        h("div", { class: "scroll", dir: "auto" }, prose(body))))));
    explorer.settle();
  }

  // The same document in the other columns and tables is marked while one is pointed at.
  function pointed(event) {
    const id = event.target.closest?.("[data-doc]")?.dataset.doc;
    explorer.root.querySelectorAll(".same").forEach((element) => element.classList.remove("same"));
    if (id !== undefined && event.type !== "mouseout" && event.type !== "focusout") {
      explorer.root.querySelectorAll(`[data-doc="${CSS.escape(id)}"]`).forEach((element) => element.closest("td, th").classList.add("same"));
    }
  }
  for (const type of ["mouseover", "mouseout", "focusin", "focusout"]) explorer.root.addEventListener(type, pointed);

  function way(topic) {
    const order = explorer.listed.includes(topic) ? explorer.listed : topic.collection.topics;
    const at = order.indexOf(topic);
    const step = (to, rel, text) => (order[to] ? h("a", { href: address(order[to]), rel }, text(bdi(order[to].id))) : null);
    return h("nav", { class: "way", "aria-label": "Topics" },
      h("a", { href: address(null), class: "back" }, "All topics"),
      h("span", { class: "steps" },
        step(at - 1, "prev", (id) => [h("span", { "aria-hidden": "true" }, "\u2039 "), h("span", { class: "vh" }, "Previous: "), id]),
        h("span", { class: "at" }, `${at + 1} of ${order.length}`),
        step(at + 1, "next", (id) => [h("span", { class: "vh" }, "Next: "), id, h("span", { "aria-hidden": "true" }, " \u203a")])));
  }

  function facts(topic) {
    const judged = topic.judged.map(([g, n]) => `${n} of grade ${g}`).join(", ") || "none";
    const pairs = [...topic.attributes, ...(topic.tags.length ? [["tags", topic.tags.join(", ")]] : []), ["judged documents", judged]];
    return h("dl", { class: "facts" }, pairs.map(([name, v]) => h("div", null, h("dt", { dir: "auto" }, name), h("dd", { dir: "auto" }, v))));
  }

  function scoreTable(topic) {
    const { runs, measures } = topic.collection;
    const rows = runs.map((run) => ({ run, mark: run === state.a ? "is-a" : run === state.b ? "is-b" : "" }));
    const columns = [
      {
        key: "run", head: "run", value: (row) => row.run,
        cell: (row) => [bdi(row.run), row.run === state.a && compared() ? [" ", badge("a")] : null, row.run === state.b ? [" ", badge("b")] : null],
      },
      ...measures.map(([name, title]) => ({
        key: name, head: bdi(title), numeric: true, value: (row) => value(topic, row.run, name),
        cell: (row) => (name === state.measure
          ? h("span", { class: "diff" }, fixed(value(topic, row.run, name)), bar(value(topic, row.run, name))) : fixed(value(topic, row.run, name))),
      })),
    ];
    const scores = table(`Scores of the runs on ${topic.id}`, columns, rows, { key: state.measure, sign: -1 });
    scores.classList.toggle("few", measures.length < 4);
    return scores;
  }

  // ---- rankings side by side

  function sideBySide(topic, found) {
    const box = h("div", null, sides(topic, found, found.all));
    if (!found.scored.length) return [box];
    const only = h("input", {
      type: "checkbox",
      change: () => box.replaceChildren(...sides(topic, found, only.checked ? found.scored : found.all)),
    });
    return [h("label", { class: "only-judged" }, only, " judged documents only, as they are scored"), box];
  }

  function sides(topic, { ranks, docs, run }, rankings) {
    const keys = compared() ? ["a", "b"] : ["a"];
    const lists = keys.map((key) => rankings[run(state[key])] ?? []);
    const length = Math.max(0, ...lists.map((list) => list.length));
    const first = compared() ? [...Array(length).keys()].find((i) => lists[0][i]?.[0] !== lists[1][i]?.[0]) : undefined;
    const elsewhere = (doc, other) => {
      const r = doc.relevant ? ranks[run(state[keys[other]])]?.[docs.indexOf(doc)] ?? 0 : 0;
      const rank = lists[other].find(([there]) => there === doc)?.[1] ?? r;
      const words = rank ? `rank ${rank} in run ${"AB"[other]}` : `not ${doc.relevant ? "retrieved by" : "among the first of"} run ${"AB"[other]}`;
      return h("span", { class: "other", title: words }, h("span", { "aria-hidden": "true" }, rank ? `${"AB"[other]}${rank}` : "\u2014"), h("span", { class: "vh" }, words));
    };
    const cell = (pair, i, k) => {
      if (!pair) return h("td", { class: "t" });
      const [doc, rank] = pair;
      const away = rank === i + 1 ? null : h("span", { class: "of" }, ` rank ${rank}`);
      return h("td", { class: "t" }, compared() ? elsewhere(doc, 1 - k) : null, grade(doc), " ", docName(doc), away, gist(doc));
    };
    const bodies = [h("tbody", null)];
    for (let i = 0; i < length; i += 1) {
      if (i === first) {
        bodies.push(h("tbody", null, h("tr", { class: "mark" },
          h("th", { class: "t", scope: "rowgroup", colspan: String(keys.length + 1) }, `First difference, at rank ${i + 1}`))));
      }
      bodies.at(-1).append(h("tr", null, h("th", { scope: "row" }, String(i + 1)), lists.map((list, k) => cell(list[i], i, k))));
    }
    const caption = compared() ? `The first ${length} documents of the two runs` : `The first ${length} documents`;
    const nothing = keys.filter((key, i) => !lists[i].length).map((key) => h("p", { class: "note" }, compared() ? runHead(key) : bdi(state.a), " has no results for this topic."));
    if (!length) return nothing;
    return [
      h("div", { class: "region", role: "region", "aria-label": caption, tabindex: "0" },
        h("table", { class: "sides" }, h("caption", { class: "vh" }, caption),
          h("thead", null, h("tr", null, h("th", { scope: "col" }, "rank"), keys.map((key) => h("th", { scope: "col", class: "t" }, compared() ? runHead(key) : bdi(state.a))))),
          bodies)),
      ...nothing,
      compared() && first === undefined ? h("p", { class: "note" }, `The first ${length} are the same in both.`) : null,
      h("p", { class: "note" }, legend(topic), compared() ? "; at the end of a cell the document's rank in the other run." : "."),
    ].filter(Boolean);
  }

  function legend(topic) {
    const from = topic.collection.relevantFrom;
    return [
      "Grades: ",
      h("span", { class: "grade g3" }, "best"), " ", h("span", { class: "grade g2" }, `relevant, from ${from}`), " ",
      h("span", { class: "grade g1" }, "below that"), " ", h("span", { class: "grade g0" }, "0"), " ",
      h("span", { class: "grade gnone" }, "?"), " not judged",
    ];
  }

  // ---- where the runs have the relevant documents

  function matrix(topic, { docs, ranks, run }) {
    const relevant = docs.filter((doc) => doc.relevant);
    if (!relevant.length) return [h("p", { class: "note" }, "No document is judged relevant to this topic.")];
    const ahead = [state.a, state.b].filter((name) => run(name) >= 0);
    const runs = [...ahead, ...topic.collection.runs.filter((name) => !ahead.includes(name))];
    const rank = (row, name) => ranks[run(name)][row.i] || null;
    const rows = relevant.map((doc, i) => ({ doc, i }));
    const columns = [
      { key: "doc", head: "document", low: true, value: (row) => -row.doc.grade, cell: (row) => [grade(row.doc), " ", docName(row.doc), gist(row.doc)] },
      ...runs.map((name) => ({
        key: name, numeric: true, low: true, turned: runs.length > 6, value: (row) => rank(row, name),
        head: [bdi(name), name === state.a && compared() ? [" ", badge("a")] : null, name === state.b ? [" ", badge("b")] : null],
        cell: (row) => (rank(row, name) === null ? [h("span", { "aria-hidden": "true" }, "\u2013"), h("span", { class: "vh" }, "not retrieved")] : String(rank(row, name))),
        shade: (row) => { const r = rank(row, name); return r === null ? "absent" : r <= 10 ? "near" : r <= 100 ? "mid" : ""; },
      })),
    ];
    return [
      h("div", { class: "ranks" }, table(`Ranks of the ${count(relevant.length, "relevant document")} in each run`, columns, rows, { key: "doc", sign: 1 })),
      h("p", { class: "note" }, "Ranks up to 10 have a strong tint, up to 100 a pale one; \u2013: not retrieved."),
    ];
  }

  explorer.topicPage = (topic) => {
    const found = open(topic);
    return [
      way(topic),
      h("p", { class: "kicker" }, bdi(topic.collection.title), " \u00b7 ", bdi(topic.id)),
      h("h3", { tabindex: "-1", ...explorer.written(topic) }, h("span", { class: "scroll" }, topic.title.length ? prose(topic.title, true) : topic.id)),
      h("div", { class: "pair" },
        h("div", { class: "question" }, h("div", { class: "body scroll", ...explorer.written(topic) }, prose(topic.body)), facts(topic)),
        scoreTable(topic)),
      ...explorer.wordings(topic),
      h("h4", null, compared() ? "Side by side" : "Ranking"),
      ...sideBySide(topic, found),
      h("h4", null, "Where the relevant documents are"),
      ...matrix(topic, found),
      h("p", { class: "note" }, `Made with ${topic.collection.note}.`),
    ];
  };

  // What is wider than its place scrolls there, and can then be reached with the keyboard.
  explorer.settle = () => explorer.root.querySelectorAll(".scroll").forEach((element) => {
    if (element.scrollWidth > element.clientWidth) element.setAttribute("tabindex", "0"); else element.removeAttribute("tabindex");
  });
})();
