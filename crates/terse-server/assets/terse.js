// Adds the copy buttons for a new short link or API key. The pages work without this script.
"use strict";
for (const button of document.querySelectorAll("button[data-copy]")) {
  const card = button.closest(".card");
  const status = card.querySelector(".copy-status");
  button.hidden = false;
  button.addEventListener("click", async () => {
    let copied = true;
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
    } catch {
      // Browsers offer the clipboard API only over https: select the text and copy the selection.
      getSelection().selectAllChildren(card.querySelector("#short, #fresh"));
      copied = document.execCommand("copy");
    }
    button.textContent = copied ? "Copied" : "Copy";
    status.textContent = copied ? "" : "Selected. Press Ctrl+C or ⌘C to copy.";
    setTimeout(() => { button.textContent = "Copy"; }, 2500);
  });
}
