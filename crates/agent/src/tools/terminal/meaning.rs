//! Exit codes that are answers rather than failures.

/// Returns what an exit code means where it is not a failure. Only a command that
/// certainly ended with it is reported: the last one, and of a chain with `&&`
/// only if nothing was printed, since whatever failed earlier would have said so.
pub(super) fn meaning(command: &str, code: i32, output: &str) -> Option<&'static str> {
    if code == 0 {
        return None;
    }
    let last = last_command(command)?;
    let is_certain = match last.joined_by {
        Join::Nothing => true,
        Join::And => output.trim().is_empty(),
        Join::Or => false,
    };
    if !is_certain {
        return None;
    }
    let is_assignment = |word: &&String| {
        word.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        })
    };
    let mut words = last.words.iter().skip_while(is_assignment);
    let name = words.next()?.rsplit('/').next()?;
    of_program(name, words.find(|word| !word.starts_with('-')).map(String::as_str), code)
}

/// How a command is joined to the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Join {
    /// It is run in any case.
    Nothing,
    /// It is run if all before it went well.
    And,
    /// It is run if something before it failed.
    Or,
}

struct LastCommand {
    words: Vec<String>,
    joined_by: Join,
}

/// Returns the last command of a script, if its text leaves no doubt which
/// that is: whatever is compound, substituted or unfinished does.
fn last_command(text: &str) -> Option<LastCommand> {
    let mut last = LastCommand { words: Vec::new(), joined_by: Join::Nothing };
    let mut word: Option<String> = None;
    let mut characters = text.trim_end_matches([' ', '\t', '\n', ';']).chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\\' => word.get_or_insert_default().push(characters.next()?),
            '\'' => loop {
                match characters.next()? {
                    '\'' => break,
                    quoted => word.get_or_insert_default().push(quoted),
                }
            },
            '"' => loop {
                match characters.next()? {
                    '"' => break,
                    '`' => return None,
                    '$' if characters.peek() == Some(&'(') => return None,
                    '\\' => word.get_or_insert_default().push(characters.next()?),
                    quoted => word.get_or_insert_default().push(quoted),
                }
            },
            '(' | ')' | '{' | '}' | '`' | '#' => return None,
            '<' if characters.peek() == Some(&'<') => return None,
            '>' | '<' if characters.peek() == Some(&'&') => {
                characters.next();
            }
            ' ' | '\t' => last.words.extend(word.take()),
            ';' | '\n' | '|' | '&' => {
                last.words.extend(word.take());
                let joined_by = match (character, characters.peek()) {
                    ('&', Some('&')) => Join::And,
                    ('|', Some('|')) => Join::Or,
                    // The last command of a pipe ends it.
                    ('|', _) => last.joined_by,
                    (';' | '\n', _) => Join::Nothing,
                    // A command in the background, or a redirection: `&>`.
                    _ => return None,
                };
                if matches!(
                    (character, characters.peek()),
                    ('&', Some('&')) | ('|', Some('|' | '&'))
                ) {
                    characters.next();
                }
                // Once something may have been left out, it may be until the
                // chain ends.
                let joined_by = match (last.joined_by, joined_by) {
                    (Join::Or, Join::And) => Join::Or,
                    (_, joined_by) => joined_by,
                };
                last = LastCommand { words: Vec::new(), joined_by };
            }
            other => word.get_or_insert_default().push(other),
        }
    }
    last.words.extend(word);
    let first = last.words.first()?.as_str();
    let is_word_of_the_shell = matches!(
        first,
        "!" | "if"
            | "then"
            | "else"
            | "fi"
            | "do"
            | "done"
            | "while"
            | "until"
            | "for"
            | "case"
            | "esac"
            | "time"
    );
    (!is_word_of_the_shell).then_some(last)
}

fn of_program(name: &str, first: Option<&str>, code: i32) -> Option<&'static str> {
    Some(match (name, code) {
        ("grep" | "egrep" | "fgrep" | "rg" | "ag" | "ack" | "zgrep", 1) => {
            "no lines matched (not an error)"
        }
        ("git", 1) if first == Some("grep") => "no lines matched (not an error)",
        ("git", 1) if first == Some("diff") => "there are differences (not an error)",
        ("diff" | "colordiff" | "cmp", 1) => "the files differ (not an error)",
        ("test" | "[" | "[[", 1) => "the condition is false (not an error)",
        ("find", 1) => "some directories could not be read; the other results are valid",
        ("pgrep", 1) => "no processes matched (not an error)",
        ("which", 1) => "no such program was found (not an error)",
        ("curl", 6) => "the host name could not be resolved",
        ("curl", 7) => "the connection was refused or the host cannot be reached",
        ("curl", 22) => "the server answered with an HTTP error",
        ("curl", 28) => "the request timed out",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::meaning;

    #[test]
    fn answers_are_distinguished_from_failures() {
        for (command, code) in [
            ("grep x f", 1),
            ("cat f | /usr/bin/grep -v 'a;b'", 1),
            ("cd /; diff a b", 1),
            ("cd / && rg x", 1),
            ("[ -e x ]", 1),
            ("[[ -e x ]]", 1),
            ("git diff --exit-code", 1),
            ("LC_ALL=C grep -q x f >/dev/null 2>&1 ;\n", 1),
            ("curl -sS http://x", 7),
        ] {
            assert!(meaning(command, code, "").is_some(), "{command}");
        }
    }

    #[test]
    fn what_may_be_a_failure_gets_no_other_name() {
        for (command, code, output) in [
            ("grep x f", 2, ""),
            ("grep x f", 0, ""),
            ("echo 'a | grep'", 1, ""),
            ("! grep x f", 1, ""),
            ("grep x f || false", 1, ""),
            ("cd nowhere && grep x f", 1, "cd: nowhere: No such file or directory"),
            ("git push", 1, ""),
            ("(grep x f)", 1, ""),
            ("grep x f &", 1, ""),
            ("grep 'unclosed", 1, ""),
            ("make || cd / && grep x f", 1, ""),
            ("if true; then grep x f; fi", 1, ""),
            ("cat <<E\ngrep x\nE", 1, ""),
            ("echo $(grep x f)", 1, ""),
            ("\"$(cmd)\" | grep x", 1, ""),
            ("grep \\", 1, ""),
            ("", 1, ""),
        ] {
            assert_eq!(meaning(command, code, output), None, "{command}");
        }
    }
}
