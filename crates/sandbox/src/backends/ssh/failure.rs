//! What `ssh` says when it fails, in words with advice.

use std::time::Duration;

use super::login::HostLogin;
use crate::backend::BackendError;
use crate::backends::docker::one_line;

/// Why a host did not do what it was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// It cannot be reached now, or the connection to it was lost. It says nothing about what
    /// runs there.
    Unreachable(String),
    /// It did not answer in time, likewise.
    Silent(Duration),
    /// It, or `ssh` itself, refuses, and will again until something is changed.
    Refused { problem: String, advice: String },
    /// The shared connection carries no further session.
    TooManySessions,
}

/// Reads what `ssh` has printed on its standard error. It exited with this code before anything
/// ran over there.
pub(super) fn classify(login: &HostLogin, text: &str, code: Option<i32>) -> Failure {
    let words = one_line(last_lines(text).as_str());
    let says = |part: &str| text.contains(part);
    let by_hand = login.by_hand();
    let refused = |problem: String, advice: String| Failure::Refused { problem, advice };
    if says("Session open refused by peer") || says("session request failed") {
        return Failure::TooManySessions;
    }
    if says("HOST IDENTIFICATION HAS CHANGED") || says("POSSIBLE DNS SPOOFING") {
        return refused(
            format!("{login} has another host key than the one you know"),
            format!(
                "find out why first: another machine may intercept the connection. If the machine was \
                 reinstalled, remove the old key with `ssh-keygen -R` and log in once by hand: {by_hand}"
            ),
        );
    }
    if says("Host key verification failed") || says("host key is known for") {
        return refused(
            format!("the host key of {login} is not known"),
            format!("log in once by hand and compare the fingerprint: {by_hand}"),
        );
    }
    if let Some(at) = text.find("Permission denied (") {
        let methods = text[at..].split(['(', ')']).nth(1).unwrap_or_default();
        let asks = methods.contains("password") || methods.contains("keyboard-interactive");
        let copy = by_hand.replacen("ssh", "ssh-copy-id", 1);
        return if asks {
            let problem = if methods.contains("publickey") {
                format!(
                    "{login} accepts none of your keys, and asks for a password, which Vestal never enters"
                )
            } else {
                format!("{login} asks for a password, which Vestal never enters")
            };
            refused(
                problem,
                format!(
                    "log in with a key: put yours there with `{copy}`, and load it with `ssh-add` \
                     if it has a passphrase"
                ),
            )
        } else {
            refused(
                format!("{login} does not accept your key ({})", one_line(methods)),
                format!(
                    "see that this works without a question: {by_hand} -o BatchMode=yes true. A \
                     key with a passphrase has to be loaded with `ssh-add`; another key is named by \
                     terminal.ssh_key, another user by terminal.ssh_user"
                ),
            )
        };
    }
    if says("Too many authentication failures") {
        return refused(
            format!("{login} was offered too many keys"),
            "name the right one with terminal.ssh_key, or with IdentityFile and IdentitiesOnly in \
             your ssh_config"
                .to_owned(),
        );
    }
    if says("Bad configuration option")
        || says("Bad owner or permissions")
        || says("Can't open user config file")
    {
        return refused(
            format!("your ssh_config cannot be used: {words}"),
            "mend the line that is named, or name another file with terminal.ssh_config".to_owned(),
        );
    }
    if says("no mutual signature") || says("Unable to negotiate") || says("no matching") {
        return refused(
            format!("ssh and {login} have no common method: {words}"),
            "allow one of the methods it offers in your ssh_config".to_owned(),
        );
    }
    if words.is_empty() {
        let code = code.map_or_else(|| "a signal".to_owned(), |code| code.to_string());
        return Failure::Unreachable(format!("ssh ended with {code} without a message"));
    }
    Failure::Unreachable(words)
}

/// Returns the last lines that say something.
fn last_lines(text: &str) -> String {
    let mut lines: Vec<&str> =
        text.lines().rev().map(str::trim).filter(|line| !line.is_empty()).take(3).collect();
    lines.reverse();
    lines.join("; ")
}

impl Failure {
    /// Returns the error for who asked.
    pub(super) fn into_error(self, login: &HostLogin) -> BackendError {
        let (reason, advice) = match self {
            Self::Refused { problem, advice } => return BackendError::Advised { problem, advice },
            Self::Silent(timeout) => {
                (format!("it did not answer within {} s", timeout.as_secs()), None)
            }
            Self::TooManySessions => ("it accepts no further session".to_owned(), None),
            Self::Unreachable(words) if words.contains("Could not resolve hostname") => (
                words,
                Some(
                    "correct terminal.ssh_host, or give it a HostName in your ssh_config"
                        .to_owned(),
                ),
            ),
            Self::Unreachable(words) => (words, None),
        };
        BackendError::HostUnreachable {
            host: login.to_string(),
            reason,
            advice: advice.unwrap_or_else(|| {
                format!("see whether it is up and reached: {} true", login.by_hand())
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login() -> HostLogin {
        HostLogin { host: "there".into(), user: Some("me".into()), ..HostLogin::default() }
    }

    fn problem(text: &str) -> String {
        match classify(&login(), text, Some(255)) {
            Failure::Refused { problem, advice } => {
                assert!(!advice.is_empty());
                problem
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_refusal_of_ssh_is_reported_in_words() {
        assert_eq!(
            problem(
                "No ED25519 host key is known for there and you have requested strict checking.\r\nHost key verification failed.\r\n"
            ),
            "the host key of me@there is not known"
        );
        assert_eq!(
            problem(
                "@@@@@\n@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.\n"
            ),
            "me@there has another host key than the one you know"
        );
        assert_eq!(
            problem("me@there: Permission denied (publickey,password).\r\n"),
            "me@there accepts none of your keys, and asks for a password, which Vestal never enters"
        );
        assert_eq!(
            problem("me@there: Permission denied (keyboard-interactive).\r\n"),
            "me@there asks for a password, which Vestal never enters"
        );
        assert_eq!(
            problem("me@there: Permission denied (publickey).\r\n"),
            "me@there does not accept your key (publickey)"
        );
        assert_eq!(
            problem(
                "Received disconnect from 1.2.3.4 port 22:2: Too many authentication failures\n"
            ),
            "me@there was offered too many keys"
        );
        assert_eq!(
            problem("/home/me/.ssh/config: line 3: Bad configuration option: nonsense\n"),
            "your ssh_config cannot be used: /home/me/.ssh/config: line 3: Bad configuration option: nonsense"
        );
    }

    #[test]
    fn a_host_that_is_down_says_nothing_about_what_runs_there() {
        for text in [
            "ssh: connect to host there port 22: Connection refused\r\n",
            "ssh: connect to host there port 22: No route to host\r\n",
            "ssh: Could not resolve hostname there: Name or service not known\r\n",
            "Connection closed by 1.2.3.4 port 22\r\n",
            "client_loop: send disconnect: Broken pipe\r\n",
            "",
        ] {
            let failure = classify(&login(), text, Some(255));
            assert!(matches!(failure, Failure::Unreachable(_)), "{failure:?}");
            let error = failure.into_error(&login());
            assert!(matches!(error, BackendError::HostUnreachable { .. }), "{error:?}");
            assert!(error.advice().is_some());
        }
    }

    #[test]
    fn what_a_host_says_is_shown_on_one_line_without_control_characters() {
        let hostile = format!("\x1b[2J\x1b]0;owned\x07{}\n", "a".repeat(100_000));
        let Failure::Unreachable(words) = classify(&login(), &hostile, Some(255)) else {
            panic!("it is not a refusal");
        };
        assert!(words.len() < 4096, "{}", words.len());
        assert!(!words.chars().any(char::is_control), "{words}");
    }
}
