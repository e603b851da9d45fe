/**
 * Filters of subscriptions: CEL expressions (https://cel.dev) over one event.
 *
 * Chosen: cel-js (compared with @bufbuild/cel in bench/NOTES.md). A filter must be checked when it is saved: an unknown variable would
 * otherwise fail on each event. cel-js lacks the order of bytes, conversions of unsigned integers and of timestamps into each other, and
 * range checks of 64-bit integers. Its regular expressions are those of JavaScript, which can take exponential time, where CEL asks for RE2,
 * so filters run in a thread under a time limit (judge.ts).
 */
import { type ASTNode, Environment, type SourceRange } from '@marcbachmann/cel-js';
import { boundResults, boundTypes, boundValueTypes, type Evaluator } from './bounds.ts';

/** Length of a filter in UTF-16 units. */
export const FILTER_CHARACTERS_MAX = 2_000;

/** What an expression can read of an event. */
export interface FilterVariables {
  /** By name in lower case. */
  headers: Record<string, string>;
  content_type: string | null;
  /** Size of the body. */
  bytes: bigint;
  /** The body parsed as JSON; null: it is not JSON. */
  body: unknown;
  /** Name of the webhook. */
  webhook: string;
  event_type: string | null;
}

/** A dyn variable can be null. */
const variables = {
  headers: 'map<string, string>',
  content_type: 'dyn',
  bytes: 'int',
  body: 'dyn',
  webhook: 'string',
  event_type: 'dyn',
} as const satisfies Record<keyof FilterVariables, string>;
const names = Object.keys(variables);

/** The type `bytes` of CEL hides a variable of this name, so the expression is wrapped in a binding of it. */
const SIZE = 'weir_bytes';
const before = `cel.bind(bytes, ${SIZE}, (`;
/** The line feed ends a comment at the end of the expression. */
const after = '\n))';

const environment = new Environment({
  enableOptionalTypes: true,
  homogeneousAggregateLiterals: false,
  limits: { maxAstNodes: 1_000, maxDepth: 60, maxListElements: 200, maxMapEntries: 200, maxCallArguments: 16 },
});
for (const [name, type] of Object.entries(variables))
  environment.registerVariable(name === 'bytes' ? SIZE : name, type);
boundValueTypes(evaluatorOf(environment));

/** What is wrong with an expression, as a sentence. `at`: place of the first wrong character, from 0. */
interface FilterFault {
  at: number;
  detail: string;
}

/** `passes` throws if the expression fails on the event. */
export type Compiled =
  | { kind: 'filter'; passes: (event: FilterVariables) => boolean }
  | { kind: 'fault'; fault: FilterFault };

/** Compiles an expression and checks its names and types. */
export function compileFilter(text: string): Compiled {
  try {
    // The expression must also be valid by itself: `a) || (b` is valid only inside the parentheses of the binding.
    const { ast } = environment.parse(text);
    const wrapped = environment.parse(before + text + after);
    boundTypes(wrapped.ast);
    const checked = wrapped.check();
    if (!checked.valid) return faultOf(text, checked.error!, before.length);
    if (checked.type !== 'bool' && checked.type !== 'dyn')
      return fault(text, 0, `the expression gives ${checked.type}, and a filter must give true or false`);
    const pattern = invalidPattern(ast);
    if (pattern !== null) return fault(text, pattern.at, pattern.reason);
    const bounded = boundResults(wrapped.ast);
    return {
      kind: 'filter',
      passes: ({ bytes, ...event }) => {
        bounded.begin();
        let verdict: unknown;
        try {
          verdict = wrapped({ ...event, [SIZE]: bytes });
        } finally {
          bounded.end();
        }
        if (typeof verdict !== 'boolean')
          throw new Error(`the expression gave ${typeName(verdict)}, not true or false`);
        return verdict;
      },
    };
  } catch (error) {
    return faultOf(text, error as CelFault, 0);
  }
}

/** Results of filterProblem that are kept: lists of agents ask for the same filters at each refresh. */
const PROBLEMS_KEPT_MAX = 5_000;
const problems = new Map<string, string | null>();

/** Why the expression cannot be saved, in a sentence that names the place; null when it can be saved. */
export function filterProblem(text: string): string | null {
  const kept = problems.get(text);
  if (kept !== undefined) return kept;
  const compiled = compileFilter(text);
  const problem = compiled.kind === 'fault' ? compiled.fault.detail : null;
  if (problems.size >= PROBLEMS_KEPT_MAX) problems.delete(problems.keys().next().value!);
  problems.set(text, problem);
  return problem;
}

/** Why an expression failed on an event, in one line. */
export function failureText(error: unknown): string {
  const { summary, message } = error as Partial<CelFault>;
  return String(summary ?? message ?? error).slice(0, 200);
}

/** Errors of the library. The message holds an excerpt of the expression over several lines, the summary does not. */
interface CelFault extends Error {
  code?: string;
  range?: SourceRange;
  summary?: string;
}

function faultOf(text: string, error: CelFault, shift: number): Compiled {
  const at = Math.min(Math.max(0, (error.range?.start ?? shift) - shift), text.length);
  return fault(text, at, failureText(error).replace(/^./, (first) => first.toLowerCase()) + hintOf(text, at, error));
}

function fault(text: string, at: number, reason: string): Compiled {
  const lines = text.slice(0, at).split('\n');
  const line = lines.length === 1 && !text.includes('\n') ? '' : `Line ${lines.length}, character `;
  const position = `${line === '' ? 'Character ' : line}${lines.at(-1)!.length + 1}`;
  return { kind: 'fault', fault: { at, detail: `${position}: ${reason}.` } };
}

function hintOf(text: string, at: number, { code }: CelFault): string {
  if (code === 'unknown_variable') return `; a filter can read ${names.join(', ')}`;
  if (code === 'unexpected_character' && text[at] === '=') return '; write == to compare';
  return '';
}

/** The first constant pattern of `matches` that is not a regular expression. */
function invalidPattern(node: unknown): { at: number; reason: string } | null {
  if (Array.isArray(node)) {
    for (const part of node) {
      const found = invalidPattern(part);
      if (found !== null) return found;
    }
    return null;
  }
  if (typeof node !== 'object' || node === null || !('op' in node)) return null;
  const { op, args } = node as ASTNode;
  if (op === 'rcall' && args[0] === 'matches' && args[2].length === 1) {
    const { op: kind, args: pattern, start } = args[2][0]!;
    if (kind === 'value' && typeof pattern === 'string') {
      try {
        new RegExp(pattern);
      } catch (error) {
        return { at: start, reason: (error as Error).message };
      }
    }
  }
  return invalidPattern(args);
}

/** Returns the evaluator of the library, which the library passes only to nodes. */
function evaluatorOf(from: Environment): Evaluator {
  const program = from.parse('true');
  let evaluator: Evaluator;
  (program.ast as object as { evaluate: (given: Evaluator) => boolean }).evaluate = (given) => {
    evaluator = given;
    return true;
  };
  program();
  return evaluator!;
}

function typeName(value: unknown): string {
  return value === null
    ? 'null'
    : Array.isArray(value)
      ? 'a list'
      : typeof value === 'bigint'
        ? 'a number'
        : `a ${typeof value}`;
}
