use super::*;

const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash
# a comment

broken
bad:x:many:0::/:
daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
app:x:1000:1000:App,,,:/home/app:/bin/sh
twin:x:1000:1001::/home/twin:
bare:x:1002:1002
1003:x:1004:1004::/home/digits:/bin/sh
";

const GROUP: &str = "root:x:0:
daemon:x:1:root
wheel:x:10:root,app
app:x:1000:
audio:x:29:app,twin
audio2:x:29:app
broken:x:
twin:x:1001:
";

fn accounts() -> AccountLists {
    AccountLists { passwd: PASSWD.into(), group: GROUP.into() }
}

fn found(spec: &str) -> Result<User, UserError> {
    find(&accounts(), ProcessIds { uid: 0, gid: 0 }, spec)
}

fn ids(spec: &str) -> (u32, u32, Vec<u32>) {
    let user = found(spec).unwrap();
    (user.uid, user.gid, user.groups)
}

#[test]
fn a_user_is_found_by_name_or_number_with_all_that_belongs_to_it() {
    let app = User {
        uid: 1000,
        gid: 1000,
        groups: vec![1000, 10, 29],
        name: Some(b"app".to_vec()),
        home: b"/home/app".to_vec(),
        shell: Some(b"/bin/sh".to_vec()),
    };
    assert_eq!(found("app"), Ok(app.clone()));
    assert_eq!(found("1000"), Ok(app.clone()));
    assert_eq!(found("app:"), Ok(app));
}

#[test]
fn a_group_that_is_named_is_the_only_one() {
    assert_eq!(ids("app:audio"), (1000, 29, vec![29]));
    assert_eq!(ids("app:77"), (1000, 77, vec![77]));
    assert_eq!(ids("4711:29"), (4711, 29, vec![29]));
    assert_eq!(ids(":wheel"), (0, 10, vec![10]));
}

#[test]
fn an_unknown_number_is_a_user_of_group_0_at_home_in_the_root() {
    let user = found("4711").unwrap();
    let expected =
        User { uid: 4711, gid: 0, groups: vec![0], name: None, home: b"/".to_vec(), shell: None };
    assert_eq!(user, expected);
    // A number is never a name.
    assert_eq!(found("1003").unwrap().name, None);
    assert_eq!(found("1004").unwrap().name.unwrap(), b"1003");
}

#[test]
fn missing_fields_are_empty_and_other_lines_are_no_users() {
    let bare = found("bare").unwrap();
    assert_eq!((bare.home.as_slice(), bare.shell), (&b"/"[..], None));
    for name in ["bad", "broken", "# a comment"] {
        assert!(found(name).is_err(), "{name}");
    }
    assert!(found("app:broken").is_err());
}

#[test]
fn an_unknown_name_is_an_error_that_names_it() {
    let message = |spec: &str| found(spec).unwrap_err().to_string();
    assert_eq!(message("nobody"), "there is no user \"nobody\" in /etc/passwd of the image");
    assert_eq!(message("app:staff"), "there is no group \"staff\" in /etc/group of the image");
    assert_eq!(message("-1"), "there is no user \"-1\" in /etc/passwd of the image");
}

#[test]
fn a_number_that_means_something_else_to_the_kernel_is_refused() {
    for spec in ["4294967295", "2147483648", "99999999999999999999", "0:4294967295"] {
        assert!(matches!(found(spec), Err(UserError::Range(_))), "{spec}");
    }
    assert_eq!(ids("2147483647").0, i32::MAX.unsigned_abs());
}

#[test]
fn without_lists_only_numbers_are_users() {
    let none = AccountLists::default();
    let ids = ProcessIds { uid: 5, gid: 6 };
    assert_eq!(find(&none, ids, "1000:1000").unwrap().gid, 1000);
    assert_eq!(find(&none, ids, ":7").unwrap().uid, 5);
    assert!(find(&none, ids, "root").is_err());
}

#[test]
fn the_user_of_this_process_has_its_own_groups() {
    let own = resolve(None).unwrap();
    assert_eq!(own, resolve(Some("")).unwrap());
    assert_eq!(own.uid, rustix::process::geteuid().as_raw());
    assert_eq!((own.gid, own.groups[0]), (rustix::process::getegid().as_raw(), own.gid));
}

fn user_with_ids(uid: u32, gid: u32) -> User {
    User { uid, gid, groups: vec![gid], name: None, home: b"/".to_vec(), shell: None }
}

#[test]
fn only_root_becomes_somebody_else() {
    assert!(matches!(UserChange::between(0, 0, &user_with_ids(1000, 1000)), UserChange::To(_)));
    assert!(matches!(UserChange::between(0, 0, &user_with_ids(0, 1000)), UserChange::To(_)));
    assert_eq!(UserChange::between(0, 0, &user_with_ids(0, 0)), UserChange::None);
    assert_eq!(UserChange::between(1000, 1000, &user_with_ids(1000, 5)), UserChange::None);
    assert_eq!(UserChange::between(1000, 1000, &user_with_ids(1001, 1000)), UserChange::Impossible);
    assert_eq!(UserChange::between(1000, 1000, &user_with_ids(0, 0)), UserChange::Impossible);
}

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
