// The link to the current state: #operator=conv2d&stride=2&tab=matrices&entry=gw:17&story=0:2

/** {operator, settings, tab, entry: {name, at}, story: {number, step}} of a link; settings are still text. */
export function parsed(hash) {
  const settings = Object.fromEntries(new URLSearchParams(hash.replace(/^#/, "")));
  const { layer = null, operator = layer, tab = null, entry = null, story = null } = settings;
  for (const name of ["layer", "operator", "tab", "entry", "story"]) delete settings[name];
  const [, name, at] = entry?.match(/^(.+):(\d+)$/) ?? [];
  const [, number, step] = story?.match(/^(\d+):(\d+)$/) ?? [];
  return {
    operator,
    tab,
    settings,
    entry: name ? { name, at: Number(at) } : null,
    story: number ? { number: Number(number), step: Number(step) } : null,
  };
}

/** The settings of a document, overridden by those of a link; invalid choices are ignored. */
export function applied(document, settings) {
  const found = Object.fromEntries(document.settings.map(({ name, value }) => [name, value]));
  for (const { name, choices } of document.settings) {
    const choice = choices.find((each) => String(each) === settings[name]);
    if (choice !== undefined) found[name] = choice;
  }
  if (settings.typed && document.typed !== undefined) found.typed = settings.typed;
  return found;
}

export function written({ word = "operator", operator, settings, defaults, tab, entry, story }) {
  const changed = Object.entries(settings).filter(([name, value]) => defaults[name] !== value);
  const query = new URLSearchParams([
    [word, operator],
    ...changed,
    ...(tab ? [["tab", tab]] : []),
    ...(entry ? [["entry", `${entry.name}:${entry.at}`]] : []),
    ...(story ? [["story", `${story.number}:${story.step}`]] : []),
  ]);
  return `#${String(query).replaceAll("%3A", ":")}`;
}

let shown = null;
addEventListener("hashchange", () => (shown = null));

/** Changes the link without a history entry. */
export function show(hash) {
  if (hash === shown) return; // browsers take long for it, and limit how often it is allowed
  shown = hash;
  try {
    history.replaceState(null, "", hash);
  } catch {
    // a page inside another document has no address
  }
}
