// Light, dark or the system theme. The choice is stored in this browser.

const NAME = "egorecovery theme";

export function applyTheme() {
  const theme = localStorage.getItem(NAME);
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
}

export function isDark() {
  const theme = document.documentElement.dataset.theme;
  return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

export function toggleTheme() {
  localStorage.setItem(NAME, isDark() ? "light" : "dark");
  applyTheme();
}
