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

fn accounts() -> Accounts {
    Accounts { passwd: PASSWD.into(), group: GROUP.into() }
}

fn found(spec: &str) -> Result<User, UserError> {
    find(&accounts(), Ids { uid: 0, gid: 0 }, spec)
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
    let told = |spec: &str| found(spec).unwrap_err().to_string();
    assert_eq!(told("nobody"), "there is no user \"nobody\" in /etc/passwd of the image");
    assert_eq!(told("app:staff"), "there is no group \"staff\" in /etc/group of the image");
    assert_eq!(told("-1"), "there is no user \"-1\" in /etc/passwd of the image");
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
    let none = Accounts::default();
    let ids = Ids { uid: 5, gid: 6 };
    assert_eq!(find(&none, ids, "1000:1000").unwrap().gid, 1000);
    assert_eq!(find(&none, ids, ":7").unwrap().uid, 5);
    assert!(find(&none, ids, "root").is_err());
}

#[test]
fn whoever_this_process_is_has_its_own_groups() {
    let own = resolve(None).unwrap();
    assert_eq!(own, resolve(Some("")).unwrap());
    assert_eq!(own.uid, rustix::process::geteuid().as_raw());
    assert_eq!((own.gid, own.groups[0]), (rustix::process::getegid().as_raw(), own.gid));
}
