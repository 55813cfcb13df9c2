//! What of our environment a server gets.

use std::ffi::{OsStr, OsString};

use vestal_config::Environment;

/// Variables that every server gets: none of them is a secret, and programs
/// find nothing without them.
const HARMLESS: &[&str] =
    &["PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TERM", "SHELL", "TMPDIR", "TZ"];

/// Beginnings of the names of further such variables.
const HARMLESS_PREFIXES: &[&str] = &["LC_", "XDG_"];

/// What no such name has in it, unless somebody carries a key under it: `LC_*` is
/// what ssh lets through.
const TELLING: &[&str] = &["KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL"];

/// Where programs are looked for when nobody says.
const USUAL_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Returns the variables of a server: the harmless ones of our own, and those
/// that are configured for it.
pub(crate) fn of_server(
    own: &Environment,
    configured: impl IntoIterator<Item = (String, String)>,
) -> Vec<(OsString, OsString)> {
    let mut all: Vec<(OsString, OsString)> = own
        .iter()
        .filter(|(name, _)| is_harmless(name))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    for (name, value) in configured {
        let name = OsString::from(name);
        all.retain(|(other, _)| *other != name);
        all.push((name, OsString::from(value)));
    }
    if path_of(&all).is_empty() {
        all.push(("PATH".into(), USUAL_PATH.into()));
    }
    all
}

/// Returns the `PATH` among variables.
pub(crate) fn path_of(variables: &[(OsString, OsString)]) -> &OsStr {
    let path = variables.iter().find(|(name, _)| name == "PATH");
    path.map_or(OsStr::new(""), |(_, value)| value)
}

fn is_harmless(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    let by_prefix = HARMLESS_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    let is_telling = TELLING.iter().any(|word| name.contains(word));
    HARMLESS.contains(&name) || (by_prefix && !is_telling)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_gets_what_is_harmless_and_what_is_configured_for_it() {
        let own = Environment::from_pairs([
            ("PATH", "/bin"),
            ("LC_ALL", "C"),
            ("XDG_CACHE_HOME", "/c"),
            ("OPENAI_API_KEY", "secret"),
            ("LD_PRELOAD", "/evil.so"),
            ("LC_DEPLOY_TOKEN", "secret"),
            ("HOME", "/home/ada"),
        ]);
        let configured = [("TOKEN", "t"), ("HOME", "/srv")].map(|(n, v)| (n.into(), v.into()));
        let mut all = of_server(&own, configured);
        all.sort();
        let expected = [
            ("HOME", "/srv"),
            ("LC_ALL", "C"),
            ("PATH", "/bin"),
            ("TOKEN", "t"),
            ("XDG_CACHE_HOME", "/c"),
        ];
        assert_eq!(all, expected.map(|(name, value)| (name.into(), value.into())));
    }

    #[test]
    fn without_a_path_there_is_the_usual_one() {
        let all = of_server(&Environment::default(), []);
        assert_eq!(path_of(&all), OsStr::new(USUAL_PATH));
    }
}
