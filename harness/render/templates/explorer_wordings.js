// A topic in other words, such as a translation: each step of a chosen one, in its own language and direction.
(() => {
  const { data, state, h, prose } = explorer;

  // As it is written, what is read from the left set apart; else with its formulas drawn.
  const shown = (text, inline) => prose(text, inline).map((part) => (Array.isArray(part) ? h("bdi", { dir: "ltr", class: "kept" }, part[0]) : part));

  function step({ label, language, direction }, place, before) {
    const [title, body] = data.texts[place];
    const attributes = { class: "body scroll", lang: language || null, dir: direction };
    const texts = place === before ? [h("p", { class: "note" }, "The same.")]
      : title.length || body.length ? [
        title.length ? h("div", { ...attributes, class: "body head scroll" }, shown(title, true)) : null,
        body.length ? h("div", attributes, shown(body)) : null,
      ] : [h("p", { class: "note" }, "Nothing.")];
    return h("section", null, h("h5", null, label), texts);
  }

  function drawn({ steps }, { texts, facts }) {
    return [
      facts.length === 0 ? null : h("dl", { class: "facts" }, facts.map(([name, v]) => h("div", null, h("dt", null, name), h("dd", null, v)))),
      h("div", { class: "stages" }, steps.map((each, i) => step(each, texts[i], texts[i - 1]))),
    ];
  }

  // The version that was chosen; else that of the first of the compared runs that was made from one.
  explorer.wordings = (topic) => {
    const there = topic.collection.versions.map((version, i) => [version, topic.wordings[i]]).filter(([, wording]) => wording);
    if (!there.length) return [];
    const chosen = there.find(([version]) => version.name === state.text)
      ?? [state.a, state.b].map((run) => there.find(([version]) => version.runs.includes(run))).find(Boolean) ?? there[0];
    const box = h("div", null, h("div", null, drawn(...chosen)));
    const choice = h("select", {
      id: "choice-text",
      change: () => {
        state.text = choice.value;
        explorer.keep();
        box.replaceChildren(h("div", null, drawn(...there.find(([version]) => version.name === choice.value))));
        explorer.settle();
      },
    }, there.map(([{ name }]) => h("option", { value: name, selected: name === chosen[0].name }, name)));
    return [
      h("h4", null, "Step by step"),
      h("div", { class: "controls" }, h("div", { class: "field" }, h("label", { for: "choice-text" }, "The topic in"), choice)),
      box,
    ];
  };
})();
