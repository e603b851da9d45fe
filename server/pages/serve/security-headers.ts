/** Security headers of every page. */

import type { Settings } from '../../base/settings/read.ts';

/**
 * Names and values. The policy allows no inline script or style, and nothing of other origins but the API.
 * @param formTo origin to which the answer to a form may redirect: Chromium applies form-action to it
 */
export function securityHeaders(
  { FRONTEND_PUBLIC_API_URL, PUBLIC_URL }: Settings,
  formTo?: string,
): [string, string][] {
  const policy = [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "font-src 'self'",
    "img-src 'self'",
    `connect-src 'self' ${FRONTEND_PUBLIC_API_URL}`,
    // A policy cannot name an IPv6 address.
    `form-action 'self'${formTo === undefined ? '' : ` ${formTo.includes('[') ? 'http:' : formTo}`}`,
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ];
  return [
    ['content-security-policy', policy.join('; ')],
    ['referrer-policy', 'same-origin'],
    ['cross-origin-opener-policy', 'same-origin'],
    ['cross-origin-resource-policy', 'same-origin'],
    ...(PUBLIC_URL.startsWith('https:') ? [['strict-transport-security', 'max-age=31536000'] as [string, string]] : []),
  ];
}
