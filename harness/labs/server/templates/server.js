// Copies secrets, shows how far an upload is, and looks whether a run is scored. Every page works without it.
(() => {
  for (const pre of document.querySelectorAll("[data-copy]")) {
    const box = document.createElement("div");
    const button = document.createElement("button");
    const said = document.createElement("span");
    box.className = "copy";
    button.type = "button";
    button.className = "plain";
    button.textContent = "Copy";
    said.setAttribute("role", "status");
    button.addEventListener("click", async () => {
      const range = document.createRange();
      range.selectNodeContents(pre);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      let done = true;
      try {
        await navigator.clipboard.writeText(pre.textContent.trim());
      } catch {
        done = document.execCommand("copy"); // the clipboard needs HTTPS
      }
      said.textContent = done ? "Copied." : "Selected; copy it with the keyboard.";
    });
    box.append(button, said);
    pre.after(box);
  }

  // ---- the form of an upload: size before it is sent, progress, and errors above a form that stays filled in

  const form = document.getElementById("upload");
  if (form) {
    const progress = form.querySelector(".progress");
    const button = form.querySelector("button");
    const most = Number(form.dataset.most);
    const mebibytes = (bytes) => (bytes / 1048576).toLocaleString("en", { maximumFractionDigits: 1 });
    const ask = (input) => {
      const large = [...input.files].find((file) => file.size > most);
      input.setCustomValidity(large ? `${large.name} has ${mebibytes(large.size)} MiB; at most ${mebibytes(most)} are accepted.` : "");
    };
    for (const input of form.querySelectorAll("input[type=file]")) {
      input.addEventListener("change", () => { ask(input); input.reportValidity(); });
      for (const name of ["dragenter", "dragover"]) input.addEventListener(name, () => input.classList.add("over"));
      for (const name of ["dragleave", "drop"]) input.addEventListener(name, () => input.classList.remove("over"));
    }
    const refuse = (lines) => {
      progress.textContent = "";
      button.disabled = false;
      document.querySelector("main > .alert")?.remove();
      const alert = document.createElement("div");
      alert.className = "alert bad";
      alert.setAttribute("role", "alert");
      alert.tabIndex = -1;
      const list = document.createElement(lines.length > 1 ? "ul" : "p");
      if (lines.length > 1) for (const line of lines) list.append(Object.assign(document.createElement("li"), { textContent: line }));
      else list.textContent = lines[0];
      list.className = "lines";
      list.dir = "auto";
      alert.append(list);
      document.querySelector("main").prepend(alert);
      document.title = `Error: ${document.title.replace(/^Error: /, "")}`;
      alert.focus();
    };
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      button.disabled = true;
      progress.textContent = "Sending…";
      const request = new XMLHttpRequest();
      request.upload.addEventListener("progress", (sent) => {
        if (sent.lengthComputable) progress.textContent = `Sending: ${Math.floor((100 * sent.loaded) / sent.total)} % of ${mebibytes(sent.total)} MiB`;
      });
      request.addEventListener("load", () => {
        if (request.status === 200) {
          location.assign(request.responseURL);
          return;
        }
        const answer = new DOMParser().parseFromString(request.responseText, "text/html");
        const found = [...answer.querySelectorAll(".alert li")];
        const lines = found.length ? found : [answer.querySelector(".alert p, main p") ?? answer.body];
        refuse(lines.map((line) => line.textContent.trim()));
      });
      request.addEventListener("error", () => refuse(["The connection was lost. Submit again; the run is not counted twice."]));
      request.open("POST", form.action);
      request.send(new FormData(form));
    });
  }

  // ---- an upload that waits

  const state = document.getElementById("state");
  if (state) {
    const outcome = document.getElementById("outcome");
    let version = state.dataset.version;
    const show = async () => {
      const answer = await fetch(location.pathname);
      if (!answer.ok) return;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const found = page.getElementById("state");
      version = found.dataset.version;
      if (state.textContent !== found.textContent) state.textContent = found.textContent;
      state.parentElement.className = found.parentElement.className;
      outcome.replaceChildren(...page.getElementById("outcome").childNodes);
      document.title = page.title;
    };
    const done = () => /page|refused|failed/.test(version);
    const look = async () => {
      try {
        const answer = await fetch(`${location.pathname}/state`, { headers: { accept: "application/json" } });
        if (answer.ok && (await answer.json()).version !== version) await show();
      } catch { /* the server restarts; the next look tells */ }
      if (!done()) setTimeout(look, version === "done" ? 3000 : 1000);
    };
    if (!done()) setTimeout(look, 500);
  }
})();
