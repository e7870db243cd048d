// Dark or light, before anything is painted. No module, because those are run after the first paint.
// Which of the two a person chose is kept in this browser; without a choice it is the system's.

try {
  const chosen = localStorage.getItem("runwire.theme");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
} catch {
  // A browser that keeps nothing shows what the system says.
}
