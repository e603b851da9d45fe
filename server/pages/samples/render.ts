/** Samples of code: templates below views/samples/, one file for each purpose and language, and the literals of each language. */
import { Eta } from 'eta';
import { builtFile } from '../../base/files/build.ts';
import { shellWord } from './shell.ts';

export interface Sample {
  /** Label of its tab. */
  language: string;
  code: string;
}

interface Language {
  label: string;
  /** Writes any text as one literal of the language. */
  literal: (text: string) => string;
}

// Go and Python read every string of JSON as the same text.
const languages = {
  curl: { label: 'curl', literal: shellWord },
  node: { label: 'Node.js', literal: JSON.stringify },
  python: { label: 'Python', literal: JSON.stringify },
  go: { label: 'Go', literal: JSON.stringify },
  php: { label: 'PHP', literal: (text) => `'${text.replace(/[\\']/g, '\\$&')}'` },
} satisfies Record<string, Language>;

export type LanguageName = keyof typeof languages;

const engines = new Map<LanguageName, Eta>();

/**
 * Renders views/samples/PURPOSE/LANGUAGE.eta. In the template `<%= text %>` writes a text as a literal of the language, with its quotes,
 * and `<%~ code %>` writes code unchanged. Tags that end in `-%>` take the rest of their line with them.
 * @param values the data of the template, `it`
 */
export function renderSample(purpose: 'send' | 'consume', name: LanguageName, values: object): Sample {
  const { label } = languages[name];
  return { language: label, code: engineOf(name).render(`./${purpose}/${name}`, values).trimEnd() };
}

export const literalOf = (name: LanguageName, text: string): string => languages[name].literal(text);

function engineOf(name: LanguageName): Eta {
  let engine = engines.get(name);
  if (engine === undefined) {
    const { literal } = languages[name];
    const views = builtFile('views/samples');
    engine = new Eta({ views, cache: true, autoTrim: false, escapeFunction: (text) => literal(String(text)) });
    engines.set(name, engine);
  }
  return engine;
}
