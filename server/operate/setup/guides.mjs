/**
 * Renders the guides of views/docs to HTML when Weir is built, so that a serving process loads no Markdown library. Headings have the
 * anchors that GitHub gives them.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const FOLDER = 'views/docs';
/** Order in which the guides are read; one that is not listed comes last. */
const order =
  'getting-started senders agents pages api installing operating monitoring data scaling cells how-it-works benchmarks load-tests security reference development'.split(
    ' ',
  );

/** Paths of the guides, relative to `root`. */
export function listGuides(root) {
  if (!existsSync(join(root, FOLDER))) return [];
  return readdirSync(join(root, FOLDER))
    .filter((name) => name.endsWith('.md'))
    .map((name) => `${FOLDER}/${name}`)
    .sort();
}

/**
 * Returns the guides: name, title, HTML, and the sections for the search with their plain text.
 * @param marked the Markdown library
 */
export function renderGuides(root, marked) {
  const rank = ({ name }) => (order.includes(name) ? order.indexOf(name) : order.length);
  return listGuides(root)
    .map((path) => render(path.slice(FOLDER.length + 1, -'.md'.length), readFileSync(join(root, path), 'utf8'), marked))
    .sort((a, b) => rank(a) - rank(b));
}

function render(name, text, { Marked }) {
  const sections = [];
  const seen = new Map();
  const labels = new Map();
  const renderer = {
    heading({ tokens, depth, text }) {
      const anchor = anchorOf(text, seen);
      sections.push({ level: depth, anchor, heading: plain(this.parser.parseInline(tokens)), text: '' });
      return `<h${depth} id="${anchor}">${this.parser.parseInline(tokens)}</h${depth}>\n`;
    },
    link({ href, tokens }) {
      const label = this.parser.parseInline(tokens);
      const address = addressOf(href);
      return address === null ? label : `<a href="${address}">${label}</a>`;
    },
    // A block of code scrolls, so the keyboard must reach it.
    code({ text }) {
      return `<pre tabindex="0"><code>${escapeHtml(text)}</code></pre>\n`;
    },
    table(token) {
      const row = (cells, tag) =>
        `<tr${idOf(cells[0].text, seen)}>${cells.map((cell) => `<${tag}>${this.parser.parseInline(cell.tokens)}</${tag}>`).join('')}</tr>`;
      const head = row(token.header, 'th');
      const body = token.rows.map((cells) => row(cells, 'td')).join('\n');
      const label = labelOf(sections.at(-1).heading, labels);
      return `<div class="scroll" tabindex="0" role="region" aria-label="${label}"><table><thead>${head}</thead><tbody>${body}</tbody></table></div>\n`;
    },
  };
  const marked = new Marked({ renderer });
  const html = marked.parse(text.replace(/<!--[\s\S]*?-->\n?/g, ''));
  // The text of a section is the text between its heading and the next one.
  const parts = html.split(/<h\d id="[^"]*">.*?<\/h\d>\n/s).slice(1);
  for (const [i, section] of sections.entries()) section.text = plain(parts[i]);
  return { name, title: sections[0].heading, html, sections };
}

/**
 * The anchor that GitHub gives a heading: of equal headings, the second has `NAME-1`.
 * @param heading its Markdown @param seen how often each name occurred before on the same page; this heading is added
 */
export function anchorOf(heading, seen) {
  const slug = heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N}_ -]/gu, '')
    .replaceAll(' ', '-');
  const count = seen.get(slug) ?? 0;
  seen.set(slug, count + 1);
  return count === 0 ? slug : `${slug}-${count}`;
}

/**
 * The anchor of a row that begins with a name such as `PORT` or `WeirDown`. Anchors of headings have no capitals, so it is not one of them.
 * @param seen anchors of the page; this one is added
 */
function idOf(cell, seen) {
  const [, name] = /^`([A-Za-z_]*[A-Z][A-Za-z_]*)`$/.exec(cell) ?? [];
  if (name === undefined || seen.has(name)) return '';
  seen.set(name, 1);
  return ` id="${name}"`;
}

/** A table is a landmark, so its label is unique on the page. @param seen how many tables a heading has so far; this one is added */
function labelOf(heading, seen) {
  const count = (seen.get(heading) ?? 0) + 1;
  seen.set(heading, count);
  return escapeHtml(count === 1 ? heading : `${heading}, table ${count}`);
}

/** Address of a link on the pages; null for a file that only the repository has. */
function addressOf(href) {
  if (href.startsWith('#') || /^https?:/.test(href)) return href;
  const [, guide, anchor = ''] = /^([\w-]+)\.md(#.*)?$/.exec(href) ?? [];
  if (guide !== undefined) return `/docs/${guide}${anchor}`;
  return /^(\.\.\/)+README\.md/.test(href) ? '/docs' : null;
}

const entities = { '&lt;': '<', '&gt;': '>', '&quot;': '"', '&#39;': "'", '&amp;': '&' };

function escapeHtml(text) {
  return text.replace(/[&<>"']/g, (character) =>
    Object.keys(entities).find((entity) => entities[entity] === character),
  );
}

function plain(html) {
  return html
    .replace(/<\/?(?:a|b|code|em|strong)\b[^>]*>/g, '')
    .replace(/<[^>]*>/g, ' ')
    .replace(/&(?:lt|gt|quot|#39|amp);/g, (entity) => entities[entity])
    .replace(/\s+/g, ' ')
    .trim();
}
