/** Decides the steps of a setup from facts. Pure, so that every kind of machine can be tested on one. */

/**
 * Debian packages: the files that show that a package is installed, and the step that needs it. Without an `optional` package the tests that
 * need it are skipped, and say so.
 */
const packageTable = [
  { package: 'libpq-dev', provides: ['pg_config', 'libpq-fe.h'], neededFor: 'install' },
  { package: 'build-essential', provides: ['g++', 'make'], neededFor: 'install' },
  { package: 'python3', provides: ['python3'], neededFor: 'install' },
  { package: 'postgresql-client', provides: ['pg_dump'], neededFor: 'tests' },
  { package: 'redis-server', provides: ['redis-server'], neededFor: 'tests' },
  { package: 'prometheus', provides: ['prometheus', 'promtool'], neededFor: 'tests' },
  { package: 'faketime', provides: ['faketime'], neededFor: 'tests' },
  { package: 'chromium-headless-shell', provides: ['chromium-headless-shell'], neededFor: 'tests' },
  { package: 'pgbouncer', provides: ['pgbouncer'], neededFor: 'tests' },
  { package: 'patroni', provides: ['patroni'], neededFor: 'tests', optional: true },
  { package: 'python3-etcd', provides: ['python3-etcd'], neededFor: 'tests', optional: true },
  { package: 'etcd-server', provides: ['etcd'], neededFor: 'tests', optional: true },
  { package: 'postgresql', provides: ['postgres'], neededFor: 'tests', optional: true },
  { package: 'haproxy', provides: ['haproxy'], neededFor: 'tests', optional: true },
  { package: 'nginx-light', provides: ['nginx'], neededFor: 'tests', optional: true },
  { package: 'iproute2', provides: ['ip'], neededFor: 'tests', optional: true },
  { package: 'nftables', provides: ['nft'], neededFor: 'tests', optional: true },
];

/** Minimum glibc of the uWebSockets.js binary, by Node major version; other versions have no binary. */
const glibcOfNode = { 20: '2.27', 22: '2.38', 24: '2.38', 25: '2.38' };

/** The bundler of the build needs these minor versions of Node. */
const leastMinorOfNode = { 20: 19, 22: 12 };

/**
 * Converts facts (see facts.mjs) to a decision: `{ kind: 'refuse', sentence }`, or `{ kind: 'do', steps }` with ordered steps, empty when
 * nothing is to be done. `facts.canSudo` is a function, called only when needed: each `sudo` writes a log entry.
 */
export function planSetup(facts) {
  const unfit = refuseMachine(facts);
  if (unfit !== null) return { kind: 'refuse', sentence: unfit };
  const install = facts.installed !== facts.wanted;
  // A binary that is yet to be installed is checked after the installation.
  if (!install && facts.binaryProblem !== null) return { kind: 'refuse', sentence: facts.binaryProblem };
  const steps = [];

  const missing = packageTable.filter(
    ({ provides, neededFor }) =>
      (neededFor === 'install' ? install : facts.tests) && !provides.every((item) => facts.found.includes(item)),
  );
  if (missing.length > 0) {
    const sudo = facts.uid !== 0;
    const canInstall = facts.found.includes('apt-get') && (!sudo || facts.canSudo());
    const required = missing.filter((row) => !row.optional);
    if (!canInstall && required.length > 0) return { kind: 'refuse', sentence: askForPackages(required, facts) };
    if (canInstall) {
      for (const optional of [false, true]) {
        const packages = missing.filter((row) => Boolean(row.optional) === optional).map((row) => row.package);
        if (packages.length > 0) steps.push({ kind: 'packages', packages, sudo, optional });
      }
    }
  }
  if (facts.uid === 0 && !facts.weirUser) steps.push({ kind: 'user' });
  if (install) steps.push({ kind: 'install', wanted: facts.wanted });
  if (facts.dist !== 'fresh') steps.push({ kind: 'build' });
  return { kind: 'do', steps };
}

/** The command to install packages by hand. */
export function installCommand(packages) {
  return `sudo apt-get update && sudo apt-get install -y --no-install-recommends ${packages.join(' ')}`;
}

function refuseMachine({ platform, arch, nodeVersion, glibc }) {
  if (platform !== 'linux' || !['x64', 'arm64'].includes(arch))
    return `Weir runs on Linux on x64 or arm64; this is ${platform} on ${arch}. Use the container image there: docker compose up.`;
  if (glibc === null)
    return 'Weir needs glibc, and this system has another C library (musl?). Use Debian, or the container image.';
  const [major, minor] = nodeVersion.split('.').map(Number);
  const least = glibcOfNode[major];
  if (least === undefined || minor < (leastMinorOfNode[major] ?? 0))
    return `Weir needs Node 20 (20.19 or newer), 22 (22.12 or newer), 24 or 25; this is ${nodeVersion}. Install Node ${atLeast(glibc, '2.38') ? 24 : 20} and try again.`;
  if (!atLeast(glibc, least))
    return `With Node ${major} Weir needs glibc ${least} (Debian 13, Ubuntu 24.04), and this system has ${glibc}. Use ${
      major !== 20 && atLeast(glibc, glibcOfNode[20]) ? 'Node 20, or ' : ''
    }the container image.`;
  return null;
}

function askForPackages(missing, { found }) {
  const packages = missing.map((row) => row.package);
  const lacking = missing.flatMap((row) => row.provides).filter((item) => !found.includes(item));
  if (!found.includes('apt-get'))
    return `Weir needs ${lacking.join(', ')}, and this system has no apt-get. Install the equivalents of the Debian packages ${packages.join(', ')} and try again.`;
  return `Weir needs ${lacking.join(', ')}, and may not install packages here (neither root nor passwordless sudo). Run this once, then try again:\n  ${installCommand(packages)}`;
}

function atLeast(version, least) {
  const [major, minor] = version.split('.').map(Number);
  const [leastMajor, leastMinor] = least.split('.').map(Number);
  return major > leastMajor || (major === leastMajor && minor >= leastMinor);
}
