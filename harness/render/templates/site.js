// Search, filters and columns of listings; rows that open their page. Everything is readable without this script.
(() => {
  "use strict";
  const state = new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");

  // The choices of the first listing are part of the address, so that a view can be linked.
  function remember(changes) {
    for (const [key, value] of Object.entries(changes)) {
      if (value === null) state.delete(key);
      else state.set(key, value);
    }
    const hash = state.toString();
    history.replaceState(null, "", hash ? `#${hash}` : location.pathname.split("/").pop() || "./");
  }

  function filtering(box, first) {
    const form = box.querySelector(".controls");
    if (!form) return;
    const rows = [...box.querySelectorAll("tbody tr")];
    let read = null; // texts and values of the rows, once they are asked for
    const search = form.querySelector("input[type=search]");
    const selects = [...form.querySelectorAll("select[data-facet]")];
    const defaults = selects.map((select) => select.value);
    const status = form.querySelector(".status");
    form.hidden = false;
    form.addEventListener("submit", (event) => event.preventDefault());
    if (first) {
      if (search && state.has("q")) search.value = state.get("q");
      for (const select of selects) {
        const wanted = state.get(select.dataset.name);
        if (wanted === null) continue;
        const option = [...select.options].find((each) => (each.value ? each.textContent : "all") === wanted);
        if (option) select.value = option.value;
      }
    }
    const apply = () => {
      const words = (search?.value ?? "").toLowerCase().split(/\s+/).filter(Boolean);
      const wanted = selects.filter((select) => select.value !== "").map((select) => `${select.dataset.facet}:${select.value}`);
      let shown = rows.length;
      if (words.length || wanted.length || read) {
        read ??= rows.map((row) => [
          [...row.cells].map((cell) => cell.textContent).join(" ").toLowerCase(),
          new Set((row.dataset.facets ?? "").split(" ")),
        ]);
        shown = 0;
        rows.forEach((row, index) => {
          const [text, values] = read[index];
          row.hidden = !(words.every((word) => text.includes(word)) && wanted.every((key) => values.has(key)));
          shown += !row.hidden;
        });
      }
      status.textContent = shown === rows.length ? `${rows.length} rows` : `${shown} of ${rows.length} rows`;
    };
    const changed = () => {
      apply();
      if (!first) return;
      const said = { q: search?.value || null };
      selects.forEach((select, index) => {
        const name = select.selectedOptions[0].textContent;
        said[select.dataset.name] = select.value === defaults[index] ? null : select.value ? name : "all";
      });
      remember(said);
    };
    search?.addEventListener("input", changed);
    selects.forEach((select) => select.addEventListener("change", changed));
    apply();
  }

  function columns(box) {
    const cells = (index) => [...box.querySelectorAll("tr")].map((row) => row.cells[index]).filter(Boolean);
    box.querySelectorAll(".boxes input").forEach((input) => {
      const apply = () => cells(Number(input.value)).forEach((cell) => {
        cell.hidden = !input.checked;
        cell.classList.toggle("shown", input.checked);
      });
      input.addEventListener("change", apply);
      if (input.checked !== input.defaultChecked) apply(); // as the browser kept it
    });
  }

  // A further column, with a value for each row, of the run that is chosen.
  function lookup(box) {
    const select = box.querySelector(".lookup");
    if (!select) return;
    const data = JSON.parse(select.nextElementSibling.textContent);
    data.names.forEach((name, index) => select.append(new Option(name, index)));
    const rows = [...box.querySelectorAll("tbody tr")];
    const head = document.createElement("th");
    head.scope = "col";
    head.className = "extra";
    const cells = rows.map(() => Object.assign(document.createElement("td"), { className: "extra" }));
    const apply = () => {
      if (select.value === "") {
        [head, ...cells].forEach((cell) => cell.remove());
        return;
      }
      head.textContent = `rank in ${data.names[select.value]}`;
      box.querySelector("thead tr").append(head);
      rows.forEach((row, index) => {
        cells[index].textContent = data.values[select.value][index] || "\u2013";
        row.append(cells[index]);
      });
    };
    select.addEventListener("change", apply);
    apply();
  }

  // A click anywhere in a row opens its page; its link is the way for the keyboard.
  function opening(box) {
    const body = box.querySelector("tbody");
    if (!body.querySelector("tr > :first-child a")) return;
    body.dataset.open = "";
    body.addEventListener("click", (event) => {
      if (event.target.closest("a, button, input, select") || String(getSelection())) return;
      event.target.closest("tr")?.cells[0].querySelector("a")?.click();
    });
  }

  document.querySelectorAll(".listing").forEach((box, index) => {
    filtering(box, index === 0);
    columns(box);
    lookup(box);
    opening(box);
  });

  document.querySelectorAll(".code").forEach((box) => {
    const button = document.createElement("button");
    const status = document.createElement("span");
    const area = document.createElement("div");
    button.type = "button";
    button.textContent = "Copy";
    status.setAttribute("role", "status");
    area.className = "copy";
    area.append(button, status);
    box.append(area);
    button.addEventListener("click", async () => {
      const text = box.querySelector("pre").textContent;
      try {
        await navigator.clipboard.writeText(text);
        status.textContent = "copied";
      } catch {
        const range = document.createRange();
        range.selectNodeContents(box.querySelector("pre"));
        getSelection().removeAllRanges();
        getSelection().addRange(range);
        status.textContent = document.execCommand("copy") ? "copied" : "selected; press Ctrl+C";
      }
    });
  });
})();
