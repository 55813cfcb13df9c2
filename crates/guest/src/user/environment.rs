//! The environment that jobs have before anybody adds to it.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use vestal_wire::EnvVar;

use super::resolve::User;
use crate::diagnostics::path_of;
use crate::process::DEFAULT_PATH;

/// What names of variables begin with that are the guest's own business.
const PRIVATE: &[u8] = b"VESTAL_GUEST_";

/// Returns the variables of jobs: those of `inherited`, above them what is so
/// because of the user, and above all what the settings say.
pub(crate) fn base_environment(
    inherited: impl Iterator<Item = (OsString, OsString)>,
    settings: &[EnvVar],
    user: &User,
    home: &[u8],
) -> Vec<EnvVar> {
    let mut env = Vec::new();
    for (name, value) in inherited {
        let name = name.into_vec();
        if !name.starts_with(PRIVATE) {
            set(&mut env, name, value.into_vec());
        }
    }
    if let Some(name) = &user.name {
        set(&mut env, b"USER".to_vec(), name.clone());
        set(&mut env, b"LOGNAME".to_vec(), name.clone());
    }
    set(&mut env, b"HOME".to_vec(), home.to_vec());
    if let Some(shell) = &user.shell
        && path_of(shell).is_file()
    {
        set(&mut env, b"SHELL".to_vec(), shell.clone());
    }
    for var in settings {
        set(&mut env, var.name.to_vec(), var.value.to_vec());
    }
    if !env.iter().any(|var| *var.name == b"PATH") {
        set(&mut env, b"PATH".to_vec(), DEFAULT_PATH.to_vec());
    }
    env
}

fn set(env: &mut Vec<EnvVar>, name: Vec<u8>, value: Vec<u8>) {
    match env.iter_mut().find(|var| *var.name == name) {
        Some(var) => var.value = value.into(),
        None => env.push(EnvVar { name: name.into(), value: value.into() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: Option<&str>, shell: Option<&str>) -> User {
        let bytes = |text: &str| text.as_bytes().to_vec();
        User {
            uid: 7,
            gid: 7,
            groups: vec![7],
            name: name.map(bytes),
            home: bytes("/home/app"),
            shell: shell.map(bytes),
        }
    }

    fn environment(inherited: &[(&str, &str)], settings: &[(&str, &str)], user: &User) -> String {
        let inherited = inherited.iter().map(|(name, value)| (name.into(), value.into()));
        let settings: Vec<EnvVar> = settings
            .iter()
            .map(|(name, value)| EnvVar {
                name: name.as_bytes().to_vec().into(),
                value: value.as_bytes().to_vec().into(),
            })
            .collect();
        let env = base_environment(inherited, &settings, user, &user.home);
        let lines: Vec<String> = env
            .iter()
            .map(|var| {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                format!("{}={}", text(&var.name), text(&var.value))
            })
            .collect();
        lines.join(" ")
    }

    #[test]
    fn the_user_overrides_what_was_inherited_and_the_settings_override_the_user() {
        let inherited = [("HOME", "/root"), ("A", "1"), ("USER", "root"), ("PATH", "/p")];
        let env = environment(&inherited, &[("A", "2"), ("USER", "me")], &user(Some("app"), None));
        assert_eq!(env, "HOME=/home/app A=2 USER=me PATH=/p LOGNAME=app");
    }

    #[test]
    fn nothing_is_made_up_for_a_user_without_a_name_but_home_and_path() {
        let path = String::from_utf8(DEFAULT_PATH.to_vec()).unwrap();
        let env = environment(&[], &[], &user(None, Some("/no/such/shell")));
        assert_eq!(env, format!("HOME=/home/app PATH={path}"));
        let env = environment(&[], &[("PATH", "/p")], &user(None, Some("/bin/sh")));
        assert_eq!(env, "HOME=/home/app SHELL=/bin/sh PATH=/p");
    }

    #[test]
    fn what_makes_the_guest_fail_for_a_test_is_not_passed_on() {
        let inherited = [("VESTAL_GUEST_FAILPOINT", "x"), ("VESTAL_HOME", "/v")];
        let env = environment(&inherited, &[("PATH", "/p")], &user(None, None));
        assert_eq!(env, "VESTAL_HOME=/v HOME=/home/app PATH=/p");
    }
}
