// The page works without this. It only offers to copy a short link.
"use strict";
for (const button of document.querySelectorAll("button[data-copy]")) {
  const told = button.closest("section").querySelector("[role=status]");
  button.hidden = false;
  button.addEventListener("click", async () => {
    let copied = true;
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
    } catch {
      // Without https there is no clipboard to write to: select the link and ask the old way.
      getSelection().selectAllChildren(document.getElementById("short"));
      copied = document.execCommand("copy");
    }
    button.textContent = copied ? "Copied" : "Copy";
    told.textContent = copied ? "" : "Selected. Press Ctrl+C or ⌘C to copy.";
    setTimeout(() => { button.textContent = "Copy"; }, 2500);
  });
}
