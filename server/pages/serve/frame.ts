/** The frame around every page: appearance chosen in this browser, and the count of open issues. */
import type { Exchange } from '../../base/http/exchange.ts';
import { type Page, redirect } from '../page.ts';

export const usualAppearance = { theme: 'system', density: 'comfortable' };
type Appearance = typeof usualAppearance;

interface Frame extends Appearance {
  /** Open issues. */
  issues: number;
  /** Text before the title of a page; '' without problems. */
  badge: string;
}

/** Read by frame.js as well. It holds no secret and is not authentication. */
const COOKIE = 'weir_appearance';
const YEAR_SECONDS = 31_536_000;
const COUNT_MAX = 999;

/** @param issues open issues; 0 for a client that is not signed in */
export function frameOf(appearance: Appearance, issues = 0, isDown = false): Frame {
  const badge = isDown ? '(!) ' : issues > 0 ? `(${issues > COUNT_MAX ? `${COUNT_MAX}+` : issues}) ` : '';
  return { ...appearance, issues, badge };
}

/** `THEME.DENSITY` of the cookie; unknown values count as the usual ones. */
export function appearanceOf(exchange: Exchange): Appearance {
  const [theme, density] = (exchange.cookie(COOKIE) ?? '').split('.');
  return changed(usualAppearance, theme, density);
}

function changed(appearance: Appearance, theme: string | null | undefined, density: string | null | undefined) {
  return {
    theme: ['system', 'light', 'dark'].find((value) => value === theme) ?? appearance.theme,
    density: ['comfortable', 'compact'].find((value) => value === density) ?? appearance.density,
  };
}

/** POST /account/appearance: stores the choice in a cookie of this browser, and returns to the page of the form. */
const setAppearance: Page = async ({ exchange, form }) => {
  const { theme, density } = changed(appearanceOf(exchange), form.get('theme'), form.get('density'));
  const cookie = `${COOKIE}=${theme}.${density}; Path=/; Max-Age=${YEAR_SECONDS}; SameSite=Lax`;
  return redirect(pathOf(exchange.header('referer')), undefined, { 'set-cookie': cookie });
};

export const framePages = { setAppearance };

/** The path and query of a URL of any origin, so that the redirect stays on this one. */
function pathOf(url: string | undefined): string {
  if (url === undefined || !URL.canParse(url)) return '/account';
  const { pathname, search } = new URL(url);
  return pathname.startsWith('//') ? '/account' : `${pathname}${search}`;
}
