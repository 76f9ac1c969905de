// Settings stored in the browser.

/** Read or store a setting. If the browser forbids storage, the setting is not kept. */
export const stored = (key, value) => {
  try {
    if (value === undefined) return localStorage.getItem(key);
    localStorage.setItem(key, value);
  } catch {
    // not kept
  }
  return null;
};

/** Apply the stored theme, or else that of the system. */
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
