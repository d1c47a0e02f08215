// Looks every second whether an upload is scored, and shows the page again when its state has changed.
(() => {
  const state = document.getElementById("state");
  const look = async () => {
    try {
      const answer = await fetch(`${location.pathname}/state`, { headers: { accept: "application/json" } });
      if (answer.ok && (await answer.json()).state !== state.dataset.state) {
        location.reload();
        return;
      }
    } catch { /* the server restarts; the next look tells */ }
    setTimeout(look, 1000);
  };
  setTimeout(look, 500);
})();
