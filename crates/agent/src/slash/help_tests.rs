use super::help::WIDTH;
use super::*;

#[test]
fn the_page_of_all_commands_is_pleasant_to_read() {
    insta::assert_snapshot!(help());
}

#[test]
fn the_page_of_a_command_says_what_may_follow_it() {
    let page = |name: &str| help_of(find(name).unwrap());
    insta::assert_snapshot!(
        [page("sandbox"), page("quit"), page("model"), page("undo")].join("---\n")
    );
}

#[test]
fn every_page_fits_a_narrow_terminal() {
    let pages = COMMANDS.iter().map(help_of).chain([help()]);
    for line in pages.flat_map(|page| page.lines().map(str::to_owned).collect::<Vec<_>>()) {
        assert!(line.chars().count() <= WIDTH, "{line}");
    }
}
