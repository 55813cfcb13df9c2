use super::path_context::PathContext;
use super::paths::*;

fn path_context() -> PathContext {
    PathContext { user_home: Some("/home/me".to_owned()), ..PathContext::default() }
}

#[test]
fn a_path_has_one_form() {
    let cases = [
        ("/", None, "/"),
        ("//a//b/", None, "/a/b"),
        ("/a/./b/../c", None, "/a/c"),
        ("/../..", None, "/"),
        ("~", None, "~"),
        ("~/a/../b", None, "~/b"),
        ("~/..", None, "/home"),
        ("~/../../etc", None, "/etc"),
        ("/home/me", None, "~"),
        ("/home/me/a", None, "~/a"),
        ("/home/mean", None, "/home/mean"),
        ("/home/x/../me", None, "~"),
        ("a/b", None, "a/b"),
        ("./a/..", None, "."),
        ("../a", None, "../a"),
        ("a", Some("/srv"), "/srv/a"),
        ("..", Some("/srv"), "/"),
        (".", Some("~"), "~"),
        ("/a", Some("/srv"), "/a"),
        ("", None, "."),
    ];
    for (path, cwd, expected) in cases {
        assert_eq!(canonical(path, cwd, &path_context()), expected, "{path} in {cwd:?}");
    }
}

#[test]
fn only_what_cannot_be_replaced_is() {
    for path in [
        "/",
        "/*",
        "/etc",
        "/etc/*",
        "/usr/*/*",
        "~",
        "~/*",
        "~/.*",
        "/home/you",
        "/home/*",
        "/e*",
        "~you",
    ] {
        assert!(irreplaceable(path).is_some(), "{path}");
    }
    for path in [
        "/tmp",
        "/tmp/*",
        "~/x",
        "/etc/hosts",
        "/home/you/x",
        "*",
        "build/*",
        ".",
        "..",
        "/opt/app",
        "/x*",
    ] {
        assert!(irreplaceable(path).is_none(), "{path}");
    }
}
