/**
 * A person at a browser without scripts: follows links by their text, fills forms by their labels, and presses buttons by their names.
 * Reads the HTML of Weir's templates, which quote attributes and escape `>` in them; it is not a parser of any HTML.
 */
import type { TestApp } from './app.ts';
import type { TestPerson } from './people.ts';
import { type Page, WebClient } from './web-client.ts';

interface Element {
  attributes: Record<string, string>;
  /** HTML within the element. */
  inner: string;
}

/** Text by the label of its field; `true` checks a box or chooses a radio button. */
export type Entries = Record<string, string | true>;

export class Visitor {
  readonly #client = new WebClient();
  readonly #origin: string;
  #page: Page | undefined;

  /** @param person who is signed in; null: a visitor who is not signed in */
  constructor(app: Pick<TestApp, 'url'>, person: Pick<TestPerson, 'cookie'> | null) {
    this.#origin = app.url;
    const [name, value] = person?.cookie.split('=') ?? [];
    if (name !== undefined) this.#client.setCookie(app.url, name, value!);
  }

  get #shown(): Page {
    if (this.#page === undefined) throw new Error('no page is open');
    return this.#page;
  }

  get status(): number {
    return this.#shown.status;
  }

  /** Path and query. */
  get path(): string {
    return this.#shown.url.slice(this.#origin.length);
  }

  get html(): string {
    return this.#shown.text;
  }

  /** HTML of the main part. */
  get main(): string {
    return elements(this.html, 'main')[0]?.inner ?? '';
  }

  /** Text of the main part. */
  get text(): string {
    return textOf(this.main);
  }

  get cookieNames(): string[] {
    return this.#client.cookieNames();
  }

  /** Opens a path or a URL, and follows redirects. */
  async open(address: string): Promise<void> {
    this.#page = await this.#client.follow(await this.#client.open(new URL(address, this.#origin).href));
  }

  /** Follows the one link with this text. */
  async follow(name: string | RegExp): Promise<void> {
    const is = (text: string) => (typeof name === 'string' ? text === name : name.test(text));
    const links = elements(this.html, 'a').filter((link) => is(nameOf(link)));
    // The same link may be shown twice.
    const addresses = new Set(links.map(({ attributes }) => attributes.href));
    if (addresses.size !== 1) throw new Error(`${addresses.size} links ${name} on ${this.path}`);
    await this.open(new URL([...addresses][0]!, this.#shown.url).href);
  }

  /** Fills the form of the one button with this name, and sends it. */
  async press(name: string, entries: Entries = {}): Promise<void> {
    const { form, button } = this.#form(name);
    const fields = fieldsOf(form.inner);
    for (const [label, entry] of Object.entries(entries)) fill(fields, form.inner, label, entry);
    if (button.attributes.name !== undefined) fields.append(button.attributes.name, button.attributes.value ?? '');
    const url = new URL(form.attributes.action ?? '', this.#shown.url);
    const isPost = form.attributes.method === 'post';
    if (!isPost) url.search = fields.toString();
    this.#page = await this.#client.follow(await this.#client.open(url.href, isPost ? fields : undefined));
  }

  /** What a field contains, in the form of the one button with this name. */
  entry(button: string, label: string): string | null {
    const { form } = this.#form(button);
    return fieldsOf(form.inner).get(controlOf(form.inner, label).name!);
  }

  /** Text beside a field that was refused; null without an error. */
  error(field: string): string | null {
    const [, text] = new RegExp(`id="e-${field}"[^>]*>([^<]*)<`).exec(this.html) ?? [];
    return text === undefined ? null : textOf(text);
  }

  /** A value that is shown once. */
  get once(): string {
    const [, value] = /class="once[\s\S]*?<code[^>]*>([^<]*)<\/code>/.exec(this.html) ?? [];
    if (value === undefined) throw new Error(`no value that is shown once on ${this.path}`);
    return value;
  }

  #form(button: string): { form: Element; button: Element } {
    const found = elements(this.html, 'form').flatMap((form) =>
      elements(form.inner, 'button')
        .filter((one) => nameOf(one) === button)
        .map((one) => ({ form, button: one })),
    );
    if (found.length !== 1) throw new Error(`${found.length} buttons ${button} on ${this.path}`);
    return found[0]!;
  }
}

/** Elements that contain none of their kind. */
function elements(html: string, tag: string): Element[] {
  return [...html.matchAll(new RegExp(`<${tag}\\b([^>]*)>([\\s\\S]*?)</${tag}>`, 'g'))].map(
    ([, attributes, inner]) => ({ attributes: attributesOf(attributes!), inner: inner! }),
  );
}

/** Inputs have no end tag, so that the next one must not be taken as their content. */
function inputs(html: string): Record<string, string>[] {
  return [...html.matchAll(/<input\b([^>]*)>/g)].map(([, attributes]) => attributesOf(attributes!));
}

function attributesOf(text: string): Record<string, string> {
  return Object.fromEntries(
    [...text.matchAll(/([\w-]+)(?:="([^"]*)")?/g)].map(([, name, value = '']) => [name, decode(value)]),
  );
}

function decode(text: string): string {
  const characters: Record<string, string> = { lt: '<', gt: '>', quot: '"', '#39': "'", amp: '&' };
  return text.replace(/&(lt|gt|quot|#39|amp);/g, (_, name) => characters[name]!);
}

export function textOf(html: string): string {
  return decode(html.replace(/<[^>]*>/g, ' '))
    .replace(/\s+/g, ' ')
    .trim();
}

const nameOf = ({ attributes, inner }: Element) => attributes['aria-label'] ?? textOf(inner);

/** What the form sends without any entry. */
function fieldsOf(form: string): URLSearchParams {
  const fields = new URLSearchParams();
  for (const { name, type, value = '', checked } of inputs(form)) {
    const isChosen = type === 'checkbox' || type === 'radio' ? checked !== undefined : true;
    if (name !== undefined && isChosen) fields.append(name, value);
  }
  for (const { attributes, inner } of elements(form, 'select')) {
    const options = elements(inner, 'option');
    const chosen = options.find((option) => option.attributes.selected !== undefined) ?? options[0]!;
    fields.append(attributes.name!, optionValue(chosen));
  }
  for (const { attributes, inner } of elements(form, 'textarea'))
    fields.append(attributes.name!, decode(inner.replace(/^\n/, '')));
  return fields;
}

const optionValue = ({ attributes, inner }: Element) => attributes.value ?? textOf(inner);

/** Attributes of the input, and options of the select, that a label belongs to. */
function controlOf(form: string, label: string): { name?: string; value?: string; type?: string; options?: Element[] } {
  const found = elements(form, 'label').filter(({ inner }) => textOf(inner) === label);
  if (found.length !== 1) throw new Error(`${found.length} fields ${label} in the form`);
  const [{ attributes, inner }] = found as [Element];
  if (attributes.for === undefined) return inputs(inner)[0]!;
  const input = inputs(form).find(({ id }) => id === attributes.for);
  if (input !== undefined) return input;
  for (const tag of ['select', 'textarea'])
    for (const control of elements(form, tag))
      if (control.attributes.id === attributes.for)
        return { ...control.attributes, ...(tag === 'select' && { options: elements(control.inner, 'option') }) };
  throw new Error(`the label ${label} belongs to no field`);
}

function fill(fields: URLSearchParams, form: string, label: string, entry: string | true): void {
  const { name, value, type, options } = controlOf(form, label);
  if (entry === true) {
    if (type === 'radio') fields.delete(name!);
    fields.append(name!, value ?? 'on');
  } else if (options === undefined) fields.set(name!, entry);
  else {
    const option = options.find(({ inner }) => textOf(inner) === entry);
    if (option === undefined) throw new Error(`${label} has no option ${entry}`);
    fields.set(name!, optionValue(option));
  }
}
