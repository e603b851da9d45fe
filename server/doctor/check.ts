/** One answer of `weir doctor`. */
export interface Check {
  /** What was looked at, in snake_case; several checks may share a name. */
  name: string;
  /** `advice`: works, but could be better; `problem`: does not work, or breaks a promise of Weir. */
  state: 'ok' | 'advice' | 'problem';
  /** What was seen, for people; never a secret. */
  finding: string;
  /** What to do about it; null when it is well. */
  mend: string | null;
}

export function ok(name: string, finding: string): Check {
  return { name, state: 'ok', finding, mend: null };
}

export function advice(name: string, finding: string, mend: string): Check {
  return { name, state: 'advice', finding, mend };
}

export function problem(name: string, finding: string, mend: string): Check {
  return { name, state: 'problem', finding, mend };
}

/**
 * A problem from a sentence of Weir's own, which says what is wrong and, after a semicolon or on the next lines, how to mend it.
 * @param otherwise the mend of a sentence that names none.
 */
export function problemFrom(name: string, message: string, otherwise: string): Check {
  const lineEnd = message.indexOf('\n');
  const allowed = message.indexOf('; allowed: ');
  const at = lineEnd >= 0 ? lineEnd : allowed >= 0 ? allowed : message.lastIndexOf('; ');
  if (at < 0) return problem(name, message, otherwise);
  return problem(name, message.slice(0, at), message.slice(at).replace(/^;?\s+/, ''));
}
