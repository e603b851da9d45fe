/** Compares responses with the OpenAPI document of Weir. */
import Ajv2020 from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';

export interface DocumentedOperation {
  operationId: string;
  method: string;
  /** With `{name}` for path parameters. */
  path: string;
}

/** A response; `body` is its JSON, if it is JSON. */
interface ReceivedAnswer {
  status: number;
  headers: Headers;
  body: unknown;
}

// biome-ignore lint/suspicious/noExplicitAny: a JSON document, looked into by tests
type Document = any;

const methods = ['get', 'post', 'put', 'patch', 'delete', 'options'];

export class ApiDocument {
  readonly document: Document;
  readonly operations: readonly DocumentedOperation[];
  readonly #ajv: InstanceType<typeof Ajv2020.default>;

  constructor(document: Document) {
    this.document = document;
    this.operations = Object.entries(document.paths as Record<string, Document>).flatMap(([path, item]) =>
      methods
        .filter((method) => method in item)
        .map((method) => ({ ...item[method], method: method.toUpperCase(), path })),
    );
    this.#ajv = new Ajv2020.default({ strict: false, allErrors: true });
    addFormats.default(this.#ajv);
    this.#ajv.addSchema({ ...document, $id: 'weir' });
  }

  operation(name: string): DocumentedOperation {
    return this.operations.find(({ operationId }) => operationId === name)!;
  }

  /** A documented response, undefined if the document lacks it, and its place in the document: equal ones are in the components. */
  response({ method, path }: Pick<DocumentedOperation, 'method' | 'path'>, status: number) {
    const place = ['paths', path, method.toLowerCase(), 'responses', String(status)];
    const own = this.document.paths[path][method.toLowerCase()].responses[status];
    const shared: string | undefined = own?.$ref?.split('/').at(-1);
    if (shared === undefined) return { response: own, place };
    return { response: this.document.components.responses[shared], place: ['components', 'responses', shared] };
  }

  /** Differences from the document, one sentence each. Every operation has its own statuses, types and schemas. */
  faults({ operationId, method, path }: DocumentedOperation, answer: ReceivedAnswer): string[] {
    const { status, headers, body } = answer;
    const say = (what: string) => [`${operationId} answered ${status}: ${what}`];
    const { response, place } = this.response({ method, path }, status);
    if (response === undefined) return say(`not documented; ${JSON.stringify(body)}`);
    if (headers.get('x-request-id') === null) return say('no X-Request-Id');
    if ([429, 503].includes(status) && headers.get('retry-after') === null) return say('no Retry-After');
    const { content } = response;
    const whole = headers.get('content-type') ?? '';
    const type = whole.split(';')[0]!;
    if (content === undefined) return body === null ? [] : say('a body that is not documented');
    const media = [whole, type].find((known) => known in content) ?? '*/*';
    if (!(media in content)) return say(`${type} is not documented`);
    if (content[media].schema === undefined) return [];
    const pointer = [...place, 'content', media, 'schema'];
    const validate = this.#ajv.compile({ $ref: `weir#/${pointer.map(escaped).join('/')}` });
    return validate(body) ? [] : say(`${this.#ajv.errorsText(validate.errors)}; ${JSON.stringify(body)}`);
  }
}

/** For a stream, which does not end, only the headers are compared. */
export async function receiveAnswer(url: string, init: RequestInit): Promise<ReceivedAnswer> {
  const response = await fetch(url, { redirect: 'manual', ...init });
  const { status, headers } = response;
  if (headers.get('content-type') === 'text/event-stream') {
    await response.body!.cancel();
    return { status, headers, body: undefined };
  }
  const text = await response.text();
  const body = text === '' ? null : /[/+]json\b/.test(headers.get('content-type')!) ? JSON.parse(text) : text;
  return { status, headers, body };
}

/** Escaped as a part of a JSON pointer in a URL. */
function escaped(part: string): string {
  return encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1'));
}
