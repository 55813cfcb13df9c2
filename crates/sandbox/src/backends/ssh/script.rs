//! What the login shell over there is asked to execute.
//!
//! The login shell may be any: it gets one command, `exec /bin/sh -c '…' words`, which bash,
//! dash, zsh, fish and tcsh read alike as long as the text has no quote, no backslash, no `!` and
//! no line break. What such a shell prints when it starts comes before a line with a number that
//! only this request has.

/// The directory of all that is ours over there, below the user's home.
const ROOT: &str = "$HOME/.vestal-ssh";

/// Where the guest's program may be, the best first: a home may be mounted so that programs in it
/// cannot be executed.
const PROGRAM_DIRS: &str = "\"$HOME/.vestal-ssh/bin\" \"/var/tmp/.vestal-ssh-$(id -u)\" \
                            \"/tmp/.vestal-ssh-$(id -u)\" \"/dev/shm/.vestal-ssh-$(id -u)\"";

/// Marks a request. It begins the line after which the answer comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Nonce(String);

impl Nonce {
    /// Returns a new one.
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Self(format!("vestal-{}", crate::key::random_hex::<8>()?)))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

/// The words after the nonce.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reported {
    /// The guest's program runs, and answers from the next byte on.
    Runs,
    /// The guest's program is not there. The machine is of this kind, as `uname` names system and
    /// processor.
    Needed { system: String, processor: String },
    /// The program may be sent.
    Ready,
    /// The program was stored.
    Stored,
    /// The program could not be stored, and why.
    Refused(String),
}

impl Reported {
    /// Reads a line; nothing if it is none of these.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "run" => Some(Self::Runs),
            "need" => {
                let (system, processor) = rest.trim().split_once(' ')?;
                Some(Self::Needed { system: system.to_owned(), processor: processor.to_owned() })
            }
            "ready" => Some(Self::Ready),
            "stored" => Some(Self::Stored),
            "refused" => Some(Self::Refused(rest.trim().to_owned())),
            _ => None,
        }
    }
}

/// Returns the command that runs the guest's program with this hash, to answer a request.
pub(super) fn run(nonce: &Nonce, hash: &str) -> String {
    let script = format!(
        "set -f; for d in {PROGRAM_DIRS}; do \
         if [ -O \"$d\" ] && [ -x \"$d/guest-$1\" ]; then \
         echo; echo \"$0 run\"; exec \"$d/guest-$1\" machine \"{ROOT}\"; fi; done; \
         echo; echo \"$0 need $(uname -s) $(uname -m)\""
    );
    command(&script, &[nonce.as_str(), hash])
}

/// Returns the command that stores a program of this kind (`guest`, `stage`), hash and size from
/// its standard input: whole, or not at all.
pub(super) fn store(nonce: &Nonce, kind: &str, hash: &str, size: usize) -> String {
    let script = format!(
        "set -f; umask 077; echo; echo \"$0 ready\"; w=; for d in {PROGRAM_DIRS}; do \
         if mkdir -p \"$d\" 2>/dev/null && [ -O \"$d\" ] && [ -w \"$d\" ]; then :; else continue; fi; \
         if [ -L \"$d\" ]; then continue; fi; \
         find \"$d\" -name \".upload-*\" -mmin +60 -exec rm -f {{}} + 2>/dev/null; \
         t=\"$d/.upload-$0\"; \
         if (: >\"$t\") 2>/dev/null && chmod 700 \"$t\" && [ -x \"$t\" ]; then :; \
         else rm -f \"$t\"; w=\"$w $d\"; continue; fi; \
         e=$(cat 2>&1 >\"$t\"); s=$(($(wc -c <\"$t\"))); \
         h=$(sha256sum <\"$t\" 2>/dev/null); \
         if [ \"$s\" -ne \"$2\" ]; then rm -f \"$t\"; \
         echo \"$0 refused $s of $2 bytes arrived in $d\" $e; exit; fi; \
         case \"$h\" in \"$1\"*|\"\") ;; *) rm -f \"$t\"; \
         echo \"$0 refused $d holds something else than was sent\"; exit;; esac; \
         if mv -f \"$t\" \"$d/$3-$1\"; then echo \"$0 stored $d\"; exit; fi; \
         rm -f \"$t\"; w=\"$w $d\"; done; \
         echo \"$0 refused no program can be executed in any of:$w\""
    );
    command(&script, &[nonce.as_str(), hash, &size.to_string(), kind])
}

/// Returns the one command that every login shell reads alike.
fn command(script: &str, words: &[&str]) -> String {
    debug_assert!(!script.contains(['\'', '\\', '!', '\n']), "not every shell reads {script}");
    format!("exec /bin/sh -c '{script}' {}", words.join(" "))
}

#[cfg(test)]
#[path = "script_tests.rs"]
mod tests;
