// The list of topics, how it is chosen, and the way between the list and the topic pages.
(() => {
  const {
    root, data, topics, state, h, svg, bdi, prose, runNames, measures, attributes, value, mean, known, fixed,
    signed, count, compared, label, address, follow, badge, runHead, table, bar, differenceBar,
  } = explorer;

  function changed() {
    explorer.keep();
    draw();
  }

  // ---- what to compare

  let made = 0;
  function field(key, title, control) {
    control.id = `choice-${made += 1}`;
    return h("div", { class: "field", "data-key": key }, h("label", { for: control.id }, title), control);
  }

  const choice = (key, title, options, chosen, act) => {
    const select = h("select", { change: () => act(select.value) },
      options.map(([v, text]) => h("option", { value: v, selected: v === chosen }, text)));
    return field(key, title, select);
  };

  const controls = h("div", { class: "controls", role: "group", "aria-label": "What to compare" });
  const status = h("p", { class: "status", role: "status" });
  const content = h("div", { class: "content" });
  const search = h("input", { type: "search", autocomplete: "off", input: () => { state.words = search.value; overview(); } });
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && explorer.listed.length && state.words) location.hash = address(explorer.listed[0]);
  });

  function drawControls() {
    const focused = controls.contains(document.activeElement) ? document.activeElement.closest("[data-key]")?.dataset.key : null;
    const set = (key) => (v) => { state[key] = v; changed(); };
    const where = state.page ? state.page.collection.name : state.where;
    const runs = runNames(where).map((run) => [run, run]);
    const fields = [];
    if (data.collections.length > 1 && !state.page) {
      const all = ["", `all ${data.collections.length} collections`];
      const each = data.collections.map((c) => [c.name, `${c.name} (${c.topics.length})`]);
      fields.push(choice("where", "Topics of", [all, ...each], state.where, (v) => {
        state.where = v;
        const left = attributes(v);
        [...state.slices.keys()].forEach((name) => left.get(name)?.includes(state.slices.get(name)) || state.slices.delete(name));
        changed();
      }));
    }
    const names = [...measures(where)];
    if (!names.some(([name]) => name === state.measure)) [state.measure] = names[0];
    if (names.length > 1) fields.push(choice("measure", "Measure", names, state.measure, set("measure")));
    if (compared()) {
      const exchange = h("button", {
        type: "button", class: "swap", "data-key": "swap", "aria-label": "Exchange the two runs", title: "Exchange the two runs",
        click: () => { [state.a, state.b] = [state.b, state.a]; changed(); },
      }, "\u21c4");
      fields.push(
        choice("a", [badge("a"), " Run"], runs, state.a, set("a")), exchange,
        choice("b", [badge("b"), " compared with"], runs, state.b, set("b")));
    }
    const filters = [];
    if (!state.page) {
      for (const [name, values] of attributes(state.where)) {
        if (name === "collection") continue;
        filters.push(choice(`is.${name}`, name, [["", "all"], ...values.map((v) => [v, v])], state.slices.get(name) ?? "", (v) => {
          if (v) state.slices.set(name, v); else state.slices.delete(name);
          changed();
        }));
      }
      filters.push(field("search", "Search ids and titles", search));
    }
    controls.replaceChildren(h("div", { class: "row" }, fields), h("div", { class: "row" }, filters));
    if (focused) [...controls.querySelectorAll("[data-key]")].filter((e) => e.dataset.key === focused)
      .forEach((e) => (e.querySelector("select, input") ?? e).focus());
  }

  // All runs on a scale from 0 to 1, the two compared ones on top.
  function strip(topic) {
    const at = (v) => 6 + 108 * Math.min(1, Math.max(0, v));
    const marks = topic.collection.runs.map((run) => value(topic, run, state.measure));
    const [a, b] = ["a", "b"].map((key) => value(topic, state[key], state.measure));
    const [low, high] = [Math.min(...known(marks)), Math.max(...known(marks))];
    if (!known(marks).length) return null;
    return [
      h("span", { class: "vh" }, `${fixed(low)} to ${fixed(high)}`),
      svg("svg", { class: "strip", viewBox: "0 0 120 16", "aria-hidden": "true" },
        svg("rect", { class: "axis", x: 6, width: 108, y: 7.5, height: 1 }),
        svg("path", { class: "tick", d: known(marks).map((v) => `M${at(v).toFixed(1)} 3v10`).join("") }),
        b === null ? null : svg("path", { class: "b", d: `M${at(b)} 2.6l5 5.4l-5 5.4l-5-5.4z` }),
        a === null ? null : svg("circle", { class: "a", cx: at(a), cy: 8, r: 4 })),
    ];
  }

  // All topics from where A is most ahead to where B is; the table says the same in numbers.
  function waterfall(rows) {
    const bars = rows.filter((row) => row.difference !== null).sort((p, q) => q.difference - p.difference);
    if (!compared() || bars.length < 4) return null;
    const [highest, lowest] = [bars[0].difference, bars.at(-1).difference];
    const most = Math.max(0.05, highest, -lowest);
    const path = (sign) => bars.map((row, i) => (Math.sign(row.difference) === sign
      ? `M${i + 0.08} 50v${((-48 * row.difference) / most || -0.4).toFixed(1)}h.84V50z` : "")).join("");
    const drawing = svg("svg", { viewBox: `0 0 ${bars.length} 100`, preserveAspectRatio: "none", "aria-hidden": "true" },
      svg("rect", { class: "axis", x: 0, y: 49.7, width: bars.length, height: 0.6 }),
      svg("path", { class: "a", d: path(1) }), svg("path", { class: "b", d: path(-1) }));
    const hint = h("span", { class: "hint", "aria-hidden": "true" });
    const at = (event) => {
      const box = drawing.getBoundingClientRect();
      return bars[Math.min(bars.length - 1, Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * bars.length)))];
    };
    drawing.addEventListener("click", (event) => { location.hash = address(at(event).topic); });
    drawing.addEventListener("pointermove", (event) => {
      const { topic, difference } = at(event);
      hint.replaceChildren(bdi(topic.id), ` ${signed(difference)}`);
    });
    drawing.addEventListener("pointerleave", () => hint.replaceChildren());
    return h("div", { class: "waterfall" },
      h("p", { class: "scale" },
        h("span", null, highest > 0 ? [badge("a"), ` higher, by up to ${fixed(highest)}`] : null),
        hint,
        h("span", null, lowest < 0 ? [badge("b"), ` higher, by up to ${fixed(-lowest)}`] : null)),
      drawing);
  }

  // ---- the list of topics, or of slices

  function compare(topic) {
    const [a, b] = [value(topic, state.a, state.measure), compared() ? value(topic, state.b, state.measure) : null];
    return { topic, a, b, difference: a === null || b === null ? null : a - b };
  }

  function overview() {
    const words = state.words.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = (topic) => (!state.where || topic.collection.name === state.where)
      && [...state.slices].every(([name, v]) => topic.slices.get(name) === v)
      && words.every((word) => topic.words.includes(word));
    const rows = topics.filter(fits).map(compare);
    status.replaceChildren(...outcome(rows));
    const modes = ["topic", "attribute"].map((by) => h("button", {
      type: "button", "aria-pressed": String(state.by === by), click: () => { state.by = by; changed(); content.querySelector(`.modes [aria-pressed="true"]`).focus(); },
    }, by === "topic" ? "By topic" : "By attribute"));
    const sliced = attributes(state.where).size > 0;
    content.replaceChildren(...[
      waterfall(rows),
      sliced ? h("div", { class: "modes", role: "group", "aria-label": "Rows of the table" }, modes) : null,
      h("div", { class: "list" }, sliced && state.by === "attribute" ? sliceTable(rows) : topicTable(rows)),
    ].filter(Boolean));
    explorer.settle();
  }

  // What came out, in a sentence; of one topic without means.
  function outcome(rows) {
    if (!rows.length) return ["No topic fits."];
    const one = rows.length === 1;
    const over = (n) => (one ? "." : `, mean over ${count(n, "topic")}`);
    if (!compared()) {
      const values = known(rows.map((row) => row.a));
      return [bdi(state.a), " ", h("b", null, fixed(mean(values))), ` in ${label()}`, over(values.length), one ? "" : "."];
    }
    const both = rows.filter((row) => row.difference !== null);
    const [a, b] = [mean(both.map((row) => row.a)), mean(both.map((row) => row.b))];
    const times = (sign) => both.filter((row) => Math.sign(row.difference) === sign).length;
    return [
      ...runHead("a"), ` ${fixed(a)} against `, ...runHead("b"), ` ${fixed(b)}: `,
      h("b", null, signed(a === null ? null : a - b)), ` in ${label()}`, over(both.length),
      one ? "" : `; higher on ${times(1)}, equal on ${times(0)}, lower on ${times(-1)}.`,
    ];
  }

  const differenceColumn = (most) => ({
    key: "difference", head: "difference", numeric: true, value: (row) => row.difference,
    cell: (row) => h("span", { class: "diff" }, signed(row.difference), differenceBar(row.difference, most)),
  });
  const runColumn = (key) => ({
    key, head: compared() ? [badge(key), " ", h("bdi", { class: "long-name" }, state[key])] : bdi(state[key]),
    numeric: true, value: (row) => row[key],
    cell: (row) => (compared() ? fixed(row[key]) : h("span", { class: "diff" }, fixed(row[key]), bar(row[key]))),
  });
  const mostOf = (rows) => Math.max(0.05, ...known(rows.map((row) => row.difference)).map(Math.abs));

  function topicTable(rows) {
    const many = !state.where && data.collections.length > 1;
    const columns = [
      {
        key: "topic", head: "topic", value: (row) => `${row.topic.collection.name} ${row.topic.id}`,
        cell: ({ topic }) => [
          h("a", { href: address(topic) }, bdi(topic.id)),
          many ? h("span", { class: "of" }, " ", bdi(topic.collection.name)) : null,
          h("span", { class: "title scroll", ...explorer.written(topic) }, prose(topic.title, true)),
        ],
      },
      ...(topics[0].collection.runs.length > 1 ? [{
        key: "all", head: "all runs, 0 to 1", wide: true, numeric: true,
        value: ({ topic }) => mean(known(topic.collection.runs.map((run) => value(topic, run, state.measure)))),
        cell: ({ topic }) => strip(topic),
      }] : []),
      runColumn("a"),
      ...(compared() ? [runColumn("b"), differenceColumn(mostOf(rows))] : []),
    ];
    return table(`${label()} by topic`, columns, rows, state.sort, (ordered) => { explorer.listed = ordered.map((row) => row.topic); });
  }

  function sliceTable(rows) {
    const slices = [];
    for (const [name, values] of attributes(state.where)) {
      for (const v of values) {
        const part = rows.filter((row) => row.topic.slices.get(name) === v && row.a !== null && (!compared() || row.difference !== null));
        if (!part.length) continue;
        const [a, b] = [mean(known(part.map((row) => row.a))), mean(known(part.map((row) => row.b)))];
        slices.push({ place: slices.length, name, v, n: part.length, a, b, difference: a === null || b === null ? null : a - b });
      }
    }
    const only = ({ name, v }) => () => {
      if (name === "collection") state.where = v; else state.slices.set(name, v);
      state.by = "topic";
      changed();
      content.querySelector("a, button")?.focus();
    };
    const columns = [
      {
        key: "slice", head: "slice", value: (row) => row.place,
        cell: (row) => [h("span", { class: "of" }, bdi(row.name), " "), h("button", { type: "button", class: "only", click: only(row) }, bdi(row.v))],
      },
      { key: "n", head: "n", numeric: true, value: (row) => row.n, cell: (row) => String(row.n) },
      runColumn("a"),
      ...(compared() ? [runColumn("b"), differenceColumn(mostOf(slices))] : []),
    ];
    return table(`Mean ${label()} by attribute`, columns, slices, { key: "slice", sign: 1 });
  }
  // ---- from one to the other

  function draw() {
    drawControls();
    if (state.page) {
      status.replaceChildren(`${state.page.id}: `, ...outcome([compare(state.page)]));
      content.replaceChildren(...explorer.topicPage(state.page));
      explorer.settle();
    } else overview();
  }

  // After a step to another topic its heading has the focus; after the way back, the topic's link in the list.
  function arrive() {
    const before = state.page;
    if (!follow()) return;
    draw();
    root.scrollIntoView({ behavior: "instant" });
    if (state.page) content.querySelector("h3").focus({ preventScroll: true });
    else if (before) [...content.querySelectorAll("a")].find((a) => a.getAttribute("href") === address(before))?.focus();
  }

  root.append(controls, status, content);
  root.hidden = false;
  addEventListener("hashchange", arrive);
  addEventListener("resize", explorer.settle);
  const asked = follow();
  overview(); // a topic's neighbours are those of the list
  draw();
  if (asked) root.scrollIntoView({ behavior: "instant" });
})();
