// Settings of this browser.

/** A setting of this browser; where nothing may be stored it lasts until the page is left. */
export const stored = (key, value) => {
  try {
    if (value === undefined) return localStorage.getItem(key);
    localStorage.setItem(key, value);
  } catch {
    /* see above */
  }
  return null;
};

/** Dark or light, as it was chosen before; otherwise as the system has it. */
export function restoreTheme() {
  document.documentElement.dataset.theme = stored("theme") ?? "";
}

export function switchTheme() {
  const { dataset } = document.documentElement;
  const isDark = dataset.theme
    ? dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  dataset.theme = isDark ? "light" : "dark";
  stored("theme", dataset.theme);
}
