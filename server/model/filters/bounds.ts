/**
 * Bounds what an expression can make, so that no expression takes the process down. The heap limit of the thread is not
 * enough: V8 aborts the process when one value does not fit into the free heap, bytes are outside of the heap, and no time limit interrupts
 * a search in a text or the type check, which runs where a filter is saved.
 *
 * The library has no limit of its own on results, and refuses a second implementation of its operators and functions. So the nodes of
 * the checked expression are wrapped: those that can make a text, bytes, a list or a map. A comparison of members stays as it is.
 */
import type { ASTNode } from '@marcbachmann/cel-js';

/** Limit on one result. A UTF-16 unit counts as a byte. */
const RESULT_BYTES_MAX = 4_194_304;
/** Limit on the sum of the results of one evaluation: lists can hold many. */
const RESULTS_BYTES_MAX = 33_554_432;
/** Size that an item of a list counts, and an entry of a map. */
const ITEM_BYTES = 16;
const ENTRY_BYTES = 64;
/** Size that one byte of JSON counts: 3 bytes can become an object of 56. */
const JSON_BYTES = 16;
/**
 * Length of a text times the length of the text searched in it: the comparisons that V8 makes in the worst case. Nothing interrupts
 * them, and 1.1e9 took 3.5 s forwards and 5.5 s backwards.
 */
const SEARCH_STEPS_MAX = 268_435_456;
/** Length of a pattern and of a duration that are not constants. */
const PATTERN_CHARACTERS_MAX = 2_000;
const DURATION_CHARACTERS_MAX = 100;
/** Lists, maps and optionals inside each other, as a type. The library keeps every type permanently and builds its name: see boundTypes. */
const TYPE_DEPTH_MAX = 4;

interface CelType {
  kind: string;
  keyType?: CelType;
  valueType?: CelType;
}

/** The members of the library's evaluator that nodes use. */
export interface Evaluator {
  debugType(value: unknown): CelType;
  debugTypeDeep(value: unknown): CelType;
  registry: { getListType(item: CelType): CelType; getMapType(key: CelType, value: CelType): CelType };
}

interface Checker {
  createError(code: string, message: string, node: unknown): Error;
}

/** The scope of a variable of a macro. */
interface Scope {
  reuse(parent: unknown): Scope;
  iterValue: unknown;
  accuValue: unknown;
}

type Evaluate = (evaluator: Evaluator, node: Node, scope: { accuValue: unknown }) => unknown;

/** The members of nodes that the types of the library lack. */
interface Node {
  op: string;
  args: unknown;
  meta: { evaluate: Evaluate; macro?: { bindCtx?: Scope } };
  check(checker: Checker, node: Node, scope: unknown): CelType;
  evaluate: Evaluate;
  /** Set by the check, for operators and calls: takes both operands, or the receiver and the arguments as a list. */
  handle?: (...given: unknown[]) => unknown;
}

/**
 * Bounds the types of an expression that is not checked yet. The name of a type contains the names of its parts: {a: a} inside nested bindings
 * doubles it each time, and 18 of them (483 characters) took 6.5 s and 216 MB.
 */
export function boundTypes(root: ASTNode): void {
  for (const node of nodesOf(root)) {
    const check = node.check;
    node.check = (checker, checked, scope) => {
      const type = check.call(node, checker, checked, scope);
      const isNestedKey = type.kind === 'map' && depthOf(type.keyType!) > 0;
      if (isNestedKey) throw checker.createError('invalid_map_key', 'A key of a map cannot be a list or a map', node);
      if (depthOf(type) > TYPE_DEPTH_MAX)
        throw checker.createError('type_depth', `Lists and maps are nested deeper than ${TYPE_DEPTH_MAX}`, node);
      return type;
    };
  }
}

function depthOf({ kind, valueType }: CelType): number {
  if (valueType === undefined) return 0;
  return depthOf(valueType) + (kind === 'dyn' ? 0 : 1);
}

/** Bounds the types of values: a body nested 3,000 deep created 3,000 types, with names of 30 MB. */
export function boundValueTypes(evaluator: Evaluator): void {
  const { registry } = evaluator;
  const typeOf = (value: unknown, depth: number): CelType => {
    const type = evaluator.debugType(value);
    if (depth === TYPE_DEPTH_MAX) return type;
    if (type.kind === 'list') {
      const [first] = value as unknown[];
      return first === undefined ? type : registry.getListType(typeOf(first, depth + 1));
    }
    if (type.kind !== 'map') return type;
    const first = firstEntry(value as object);
    return first === undefined ? type : registry.getMapType(evaluator.debugType(first[0]), typeOf(first[1], depth + 1));
  };
  evaluator.debugTypeDeep = (value) => typeOf(value, 0);
}

function firstEntry(map: object): [unknown, unknown] | undefined {
  if (map instanceof Map) return map.entries().next().value;
  for (const key in map) return [key, (map as Record<string, unknown>)[key]];
  return undefined;
}

interface Bounded {
  /** Call it before an evaluation. */
  begin(): void;
  /** Call it after an evaluation. Otherwise each of up to 1,000 filters keeps the parsed body of its last event. */
  end(): void;
}

/** Bounds the results of a checked expression: over a limit, its evaluation throws. */
export function boundResults(root: ASTNode): Bounded {
  let made = 0;
  const count = (bytes: number) => {
    if (bytes > RESULT_BYTES_MAX) throw new Error(`a result is larger than ${RESULT_BYTES_MAX} bytes`);
    made += bytes;
    if (made > RESULTS_BYTES_MAX) throw new Error(`the results are larger than ${RESULTS_BYTES_MAX} bytes in all`);
  };
  const scopes: Scope[] = [];
  for (const node of nodesOf(root)) {
    const { op, handle, meta } = node;
    const { evaluate } = meta;
    if (op === 'comprehension') scopes.push((node.args as { iterCtx: Scope }).iterCtx);
    else if (meta.macro?.bindCtx !== undefined) scopes.push(meta.macro.bindCtx);
    else if (op === 'accuPush')
      node.evaluate = (evaluator, pushed, scope) => {
        const list = evaluate(evaluator, pushed, scope) as unknown[];
        if (list.length * ITEM_BYTES > RESULT_BYTES_MAX) count(list.length * ITEM_BYTES);
        count(ITEM_BYTES);
        return list;
      };
    else if (op === 'list' || op === 'map') {
      const bytes = ITEM_BYTES + (node.args as unknown[]).length * (op === 'list' ? ITEM_BYTES : ENTRY_BYTES);
      node.evaluate = (evaluator, literal, scope) => {
        count(bytes);
        return evaluate(evaluator, literal, scope);
      };
    } else if (op === '+' && handle !== undefined)
      node.handle = (left, right, ...more) => {
        count(sizeOf(left) + sizeOf(right));
        return handle(left, right, ...more);
      };
    else if ((op === 'call' || op === 'rcall') && handle !== undefined) {
      const name = (node.args as [string])[0];
      node.handle = (values, ...more) => {
        refuseCostly(name, values as unknown[], count);
        const result = handle(values, ...more);
        count(sizeOf(result));
        return result;
      };
    }
  }
  return {
    begin: () => {
      made = 0;
    },
    end: () => {
      for (const scope of scopes) {
        scope.reuse(undefined);
        scope.iterValue = undefined;
        scope.accuValue = undefined;
      }
    },
  };
}

/** Throws if the result of the function would be over the limit by far, or if the function would take too long. */
function refuseCostly(name: string, [first, second]: unknown[], count: (bytes: number) => void): void {
  const searched = typeof first === 'string' && typeof second === 'string';
  switch (name) {
    case 'join': {
      if (!Array.isArray(first)) return;
      let bytes = typeof second === 'string' ? second.length * first.length : 0;
      for (const item of first) if (typeof item === 'string') bytes += item.length;
      if (bytes > RESULT_BYTES_MAX) count(bytes);
      return;
    }
    case 'contains':
    case 'indexOf':
    case 'lastIndexOf':
    case 'split':
      if (!searched) return;
      if (first.length * second.length > SEARCH_STEPS_MAX) throw new Error(`${name}: the text is too long to search`);
      if (name === 'split' && first.length > ITEMS_MAX && first.split(second, ITEMS_MAX + 1).length > ITEMS_MAX)
        count((ITEMS_MAX + 1) * ITEM_BYTES);
      return;
    case 'matches':
      if (searched && second.length > PATTERN_CHARACTERS_MAX)
        throw new Error(`matches: the pattern is longer than ${PATTERN_CHARACTERS_MAX} characters`);
      return;
    case 'duration':
      if (sizeOf(first) > DURATION_CHARACTERS_MAX)
        throw new Error(`duration: the text is longer than ${DURATION_CHARACTERS_MAX} characters`);
      return;
    case 'json':
      return count(sizeOf(first) * JSON_BYTES);
    case 'hex':
    case 'base64':
    case 'bytes':
    case 'string':
      if (sizeOf(first) * 2 > RESULT_BYTES_MAX) count(sizeOf(first) * (name === 'hex' ? 2 : 1));
  }
}

const ITEMS_MAX = RESULT_BYTES_MAX / ITEM_BYTES;

/** What a value counts, without the values that it holds: they were counted when they were made, or are parts of the event. */
function sizeOf(value: unknown): number {
  if (typeof value === 'string' || value instanceof Uint8Array) return value.length;
  if (Array.isArray(value)) return value.length * ITEM_BYTES;
  return typeof value === 'object' && value !== null ? ITEM_BYTES : 0;
}

/** Yields all nodes, each once, including the nodes that macros have created. */
function nodesOf(root: ASTNode): Set<Node> {
  const nodes = new Set<Node>();
  const visit = (part: unknown): void => {
    if (typeof part !== 'object' || part === null) return;
    if (Array.isArray(part)) {
      for (const one of part) visit(one);
    } else if ('op' in part && 'meta' in part) {
      const node = part as Node;
      if (node.op === 'value' || nodes.has(node)) return;
      nodes.add(node);
      visit(node.args);
      visit(node.meta);
    } else if (Object.getPrototypeOf(part) === Object.prototype) {
      for (const one of Object.values(part)) visit(one);
    }
  };
  visit(root);
  return nodes;
}
