/** One result of `weir doctor`. */
export interface Check {
  /** What was checked, in snake_case; several checks may share a name. */
  name: string;
  /** `advice`: works, but could be better; `problem`: does not work, or breaks a guarantee of Weir. */
  state: 'ok' | 'advice' | 'problem';
  /** What was found, for people; never contains a secret. */
  finding: string;
  /** How to fix it; null when there is nothing to fix. */
  fix: string | null;
}

export function ok(name: string, finding: string): Check {
  return { name, state: 'ok', finding, fix: null };
}

export function advice(name: string, finding: string, fix: string): Check {
  return { name, state: 'advice', finding, fix };
}

export function problem(name: string, finding: string, fix: string): Check {
  return { name, state: 'problem', finding, fix };
}

/**
 * Creates a problem from one of Weir's messages. The message states the fault, then the fix after a semicolon or on the next lines.
 * @param otherwise the fix for a message that contains none.
 */
export function problemFrom(name: string, message: string, otherwise: string): Check {
  const lineEnd = message.indexOf('\n');
  const allowed = message.indexOf('; allowed: ');
  const at = lineEnd >= 0 ? lineEnd : allowed >= 0 ? allowed : message.lastIndexOf('; ');
  if (at < 0) return problem(name, message, otherwise);
  return problem(name, message.slice(0, at), message.slice(at).replace(/^;?\s+/, ''));
}
