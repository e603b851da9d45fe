/** Completion scripts of the shells, written from the tree of commands. */
import { type Command, InvalidArgumentError } from 'commander';
import { printText } from '../../base/command/io.ts';
import type { Define } from '../command/program.ts';

/** `weir completion SHELL`: the script contains all words, so that completing starts no process. */
export const define: Define = (command: Command, io, whole) => {
  command
    .argument('<shell>', `one of ${Object.keys(scripts).join(', ')}`, parseShell)
    .action(async (shell: Shell) => printText(io, scripts[shell](await whole())));
};

function parseShell(given: string): Shell {
  if (!Object.hasOwn(scripts, given)) throw new InvalidArgumentError(`give one of ${Object.keys(scripts).join(', ')}.`);
  return given as Shell;
}

/** The names of a command, such as `webhook add`, and what may follow them. */
interface Completion {
  path: string;
  words: { word: string; description: string }[];
}

/** Every command of the tree. Hidden commands and options are left out. */
function completionsOf(command: Command, path: string[] = []): Completion[] {
  const help = command.createHelp();
  const children = help.visibleCommands(command);
  const words = [
    ...children.map((child) => ({ word: child.name(), description: child.description() })),
    ...help.visibleOptions(command).map(({ long, short, description }) => ({ word: (long ?? short)!, description })),
  ];
  const below = children.filter((child) => child.name() !== 'help');
  return [{ path: path.join(' '), words }, ...below.flatMap((child) => completionsOf(child, [...path, child.name()]))];
}

/** A text in single quotes, as the three shells read it. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

const wordsOf = ({ words }: Completion) => words.map(({ word }) => word).join(' ');

function bash(program: Command): string {
  const completions = completionsOf(program);
  return `# Completion of weir for bash. To load it:  source <(weir completion bash)
_weir_words() {
  case "$1" in
${completions.map((completion) => `    ${quoted(completion.path)}) echo ${quoted(wordsOf(completion))} ;;`).join('\n')}
  esac
}
_weir() {
  local at='' next word
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    next="\${at:+$at }$word"
    if [ -n "$(_weir_words "$next")" ]; then at=$next; fi
  done
  COMPREPLY=($(compgen -W "$(_weir_words "$at")" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _weir weir
`;
}

function zsh(program: Command): string {
  const described = ({ words }: Completion) =>
    words.map(({ word, description }) => quoted(`${word}:${description}`)).join(' ');
  return `#compdef weir
# Completion of weir for zsh. To load it:  source <(weir completion zsh)
_weir_words() {
  case "$1" in
${completionsOf(program)
  .map((completion) => `    ${quoted(completion.path)}) reply=(${described(completion)}) ;;`)
  .join('\n')}
    *) reply=() ;;
  esac
}
_weir() {
  local at='' next word
  local -a reply
  for word in "\${(@)words[2,CURRENT-1]}"; do
    next="\${at:+$at }$word"
    _weir_words "$next"
    if (( \${#reply} > 0 )); then at=$next; fi
  done
  _weir_words "$at"
  _describe 'weir' reply || _files
}
compdef _weir weir
`;
}

function fish(program: Command): string {
  const completions = completionsOf(program);
  const lines = completions.flatMap(({ path, words }) =>
    words.map(
      ({ word, description }) =>
        `complete -c weir -n ${quoted(`test "$(__weir_at)" = "${path}"`)} -a ${quoted(word)} -d ${quoted(description)}`,
    ),
  );
  return `# Completion of weir for fish. To load it:  weir completion fish | source
function __weir_at
  set -l at ''
  for word in (commandline -opc)[2..]
    set -l next (string trim -- "$at $word")
    if contains -- $next ${completions
      .slice(1)
      .map(({ path }) => quoted(path))
      .join(' ')}
      set at $next
    end
  end
  echo $at
end
${lines.join('\n')}
`;
}

const scripts = { bash, zsh, fish } satisfies Record<string, (program: Command) => string>;
type Shell = keyof typeof scripts;
