/** Form fields of a resource, from its table: what partials/field shows, and the input that a submitted form has. */
import { z } from 'zod';
import { jsonFault } from '../../base/http/json-text.ts';
import { bare, type Field, type FormColumn, kindOf, type Table } from '../../model/table.ts';
import { field, jsonOf, list, number, optional } from './form.ts';

type FormField = Field & { input: z.ZodType; form: FormColumn };

/** What a form shows, by field. */
interface FormValues {
  values: Readonly<Record<string, unknown>>;
  errors: Readonly<Record<string, string>>;
  /** Facts of this Weir for the placeholders of hints. */
  facts?: Readonly<Record<string, string>>;
}

/**
 * The fields of each part, in order. `isUsed`: a field has a value or an error, so a collapsed part is shown open.
 * @param parts names of the fields by part
 */
export function shownParts(table: Table, parts: Readonly<Record<string, readonly string[]>>, shown: FormValues) {
  const pairs = Object.entries(parts).map(([part, names]) => {
    const fields = names.map((name) => shownField(name, table[name] as FormField, shown));
    const isUsed = fields.some(({ value, error }) => (value ?? '') !== '' || error !== undefined);
    return [part, { fields, isUsed }] as const;
  });
  return Object.fromEntries(pairs);
}

/** The data of partials/field, which writes `attributes` as HTML. */
function shownField(name: string, { input, form, initial }: FormField, { values, errors, facts }: FormValues) {
  const { label, hint, rows, suggestions } = form;
  const fill = (text: string) => text.replace(/\{([a-z ]+)\}/g, (_, fact: string) => facts?.[fact] ?? '');
  const schema = bare(input);
  const isRequired = kindOf(input) === 'text' && initial !== '' && !(input instanceof z.ZodNullable);
  const attributes = [
    suggestions && `list="${suggestions}"`,
    form.noHistory || form.type === 'password' ? 'autocomplete="off"' : '',
    form.placeholder && `placeholder="${fill(form.placeholder)}"`,
    isRequired && 'required',
    // Not on an optional text: the browser would cut what is pasted.
    isRequired && schema instanceof z.ZodString && schema.maxLength !== null && `maxlength="${schema.maxLength}"`,
    schema instanceof z.ZodNumber && `min="${schema.minValue}"`,
    schema instanceof z.ZodNumber && form.hasMax && `max="${schema.maxValue}"`,
  ];
  return {
    name,
    label,
    type: form.type === 'json' ? 'textarea' : (form.type ?? (kindOf(input) === 'number' ? 'number' : 'text')),
    rows,
    value: values[name] ?? (form.type === 'password' ? undefined : initial),
    error: errors[name] && ((form.type === 'json' && notJson(values[name])) || errors[name]),
    hint: hint && fill(hint),
    guide: form.guide,
    attributes: attributes.filter(Boolean).join(' '),
  };
}

/** Why a submitted text is not JSON; null: it is, or it is empty. */
function notJson(value: unknown): string | null {
  const fault = value ? jsonFault(Buffer.from(String(value))) : null;
  return fault && `This is not JSON: ${fault}.`;
}

/**
 * The members that a form can set, as the operation takes them. Values that cannot be parsed are passed unchanged, so that the schema
 * refuses them. A password that is left empty is absent.
 */
export function inputOf<Name extends string>(
  table: Table,
  parts: Readonly<Record<string, readonly Name[]>>,
  form: URLSearchParams,
): Record<Name, unknown> {
  const names = Object.values(parts).flat();
  const pairs = names.map((name) => [name, memberOf(name, table[name] as FormField, form)] as const);
  return Object.fromEntries(pairs.filter(([, value]) => value !== undefined)) as Record<Name, unknown>;
}

function memberOf(name: string, { input, form: { type }, initial }: FormField, form: URLSearchParams): unknown {
  if (type === 'password') return field(form, name) || undefined;
  if (type === 'json') {
    const text = field(form, name);
    return text === '' ? null : (jsonOf(text) ?? text);
  }
  const kind = kindOf(input);
  if (kind === 'list') return list(form, name);
  if (kind === 'number') return number(form, name);
  return input instanceof z.ZodNullable ? optional(form, name) : field(form, name) || (initial ?? '');
}
