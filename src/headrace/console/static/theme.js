// Before the first paint: the theme that was chosen, if one was; else the system's.
(() => {
  const chosen = localStorage.getItem("headrace-theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
})();
