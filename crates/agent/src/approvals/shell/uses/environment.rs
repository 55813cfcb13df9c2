//! Variables that decide what programs run.

use super::Words;

/// Names that programs of the tables take code, options or other programs from.
const NAMES: Words = Words(
    "BASH_ENV ENV SHELLOPTS BASHOPTS PROMPT_COMMAND PS0 PS1 PS2 PS3 PS4 SHELL HOME EDITOR \
     VISUAL PAGER MANPAGER BROWSER LESSOPEN LESSCLOSE PERL5OPT PERL5LIB PERL5DB RUBYOPT \
     RUBYLIB NODE_OPTIONS NODE_PATH JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS \
     MAVEN_OPTS GRADLE_OPTS CLASSPATH MAKEFLAGS MAKEFILES GNUMAKEFLAGS MAKE CC CXX LD AR AS \
     CPP RUSTC RUSTDOC GOFLAGS GOROOT AWKPATH AWKLIBPATH TAR_OPTIONS RSYNC_RSH GCONV_PATH \
     TERMINFO INPUTRC CDPATH MAILPATH HISTFILE TMPDIR DOCKER_HOST KUBECONFIG XDG_CONFIG_HOME ZDOTDIR PYTHONPATH",
);

/// Beginnings of such names.
const BEGINNINGS: Words =
    Words("LD_ DYLD_ GIT_ PYTHON BASH_FUNC_ npm_config_ NPM_CONFIG_ PIP_ VESTAL_ CARGO_ALIAS_");

/// Ends of such names.
const ENDS: Words =
    Words("_WRAPPER _RUNNER _LINKER _COMMAND _CMD _EDITOR _PAGER _SHELL _ASKPASS _PRELOAD _SSH");

/// Names with such a beginning that decide nothing.
const HARMLESS: Words = Words(
    "GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_AUTHOR_DATE GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL \
     GIT_COMMITTER_DATE GIT_TERMINAL_PROMPT GIT_OPTIONAL_LOCKS GIT_LFS_SKIP_SMUDGE GIT_TRACE \
     PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONHASHSEED PYTHONWARNINGS PYTHONIOENCODING \
     PYTHONUTF8 PIP_NO_CACHE_DIR",
);

/// Values of the others that name nothing but a harmless program.
const PROGRAMS: [&str; 14] = [
    "",
    "cat",
    "true",
    ":",
    "less",
    "gcc",
    "clang",
    "cc",
    "g++",
    "clang++",
    "c++",
    "musl-gcc",
    "/bin/bash",
    "/bin/sh",
];

/// Directories that hold programs on most machines.
const PROGRAM_DIRS: Words = Words(
    "/bin /sbin /usr/bin /usr/sbin /usr/local/bin /usr/local/sbin /usr/local/go/bin \
     /opt/homebrew/bin /snap/bin ~/.cargo/bin ~/.local/bin ~/go/bin ~/.bun/bin ~/.deno/bin \
     ~/bin",
);

/// Reports whether a variable with this value decides what programs run.
pub(in crate::approvals::shell) fn decides_what_runs(name: &str, value: &str) -> bool {
    if name == "PATH" {
        return !value.split(':').all(is_program_dir);
    }
    if name == "PYTHONPATH" {
        // Code of the project, which tests run anyway.
        let own = |dir: &str| !dir.starts_with(['/', '~']) && !dir.contains("..") && dir.is_ascii();
        return !value.split(':').all(own);
    }
    let named = NAMES.has(name)
        || BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
        || ENDS.iter().any(|end| name.ends_with(end));
    named && !HARMLESS.has(name) && !PROGRAMS.contains(&value)
}

/// Reports whether programs may come from a directory: one of the usual, or a
/// package's own below `/opt`.
fn is_program_dir(dir: &str) -> bool {
    let dir = dir.trim_end_matches('/');
    let package = dir.starts_with("/opt/") && dir.ends_with("bin") && !dir.contains("..");
    PROGRAM_DIRS.has(dir) || package
}

/// Reports whether a program's path names what a plain name would.
pub(in crate::approvals::shell) fn is_system_program(path: &str) -> bool {
    path.rsplit_once('/').is_some_and(|(dir, _)| is_program_dir(dir))
}
