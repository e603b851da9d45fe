/** The page of a refused request. A refused form is shown again with its values, so that it can be sent again. */

import type { Exchange } from '../../base/http/exchange.ts';
import { titleOf } from '../../base/http/problem.ts';
import { problems } from '../../model/errors.ts';
import type { PageReply } from '../page.ts';

const OVERVIEW = { to: '/', text: 'Back to the overview' };
/** Fields that are never written into a page. The user types them again. */
const SECRET_FIELD = /password|^secret$|^verify_token$/;
/** Fields that the user sees. Further ones are hidden and only sent again. */
const VISIBLE_MAX = 30;

/** A refused form, to send again. */
interface RefusedForm {
  action: string;
  /** Names and values that the user did not type, such as ids of checked boxes. */
  hidden: [string, string][];
  typed: [string, string][];
  /** Names of secret fields that had a value. */
  secrets: string[];
}

/**
 * The view of a problem, with its status.
 * @param form the fields of the refused request; null for a page that was only opened, or when they must not be repeated
 */
export function problemView(
  { code, detail, link = OVERVIEW, retries = false }: Extract<PageReply, { kind: 'problem' }>,
  form: RefusedForm | null,
) {
  const { status, detail: usual } = problems[code];
  const mayPass = status >= 500 || [403, 409, 412, 429].includes(status);
  const data = { detail: detail ?? usual, code, link, retries, form: mayPass ? form : null };
  return { view: 'problem', title: titleOf(status), status, data, address: undefined };
}

/** The form of a refused POST. */
export function refusedForm(exchange: Exchange, fields: URLSearchParams): RefusedForm {
  const form: RefusedForm = { action: exchange.path, hidden: [], typed: [], secrets: [] };
  for (const [name, value] of fields) {
    if (name === 'csrf') continue;
    if (SECRET_FIELD.test(name)) {
      if (value !== '') form.secrets.push(name);
    } else if (isTyped(name, value, fields) && form.typed.length < VISIBLE_MAX) form.typed.push([name, value]);
    else form.hidden.push([name, value]);
  }
  return form;
}

/** Whether the user sees the field: not an empty field, an id, a tag or a repeated name. */
function isTyped(name: string, value: string, fields: URLSearchParams): boolean {
  return (
    value !== '' &&
    !['tag', 'confirmed'].includes(name) &&
    !/_ids?$|_choice$|_to$/.test(name) &&
    fields.getAll(name).length === 1
  );
}
