use super::*;

#[test]
fn what_is_kept_is_bounded() {
    let mut undo = Undo::default();
    let mut buffer = Buffer::new();
    let large = Fragment::plain(&"x".repeat(1 << 20));
    for _ in 0..20 {
        let before = buffer.cursor();
        let removed = buffer.replace(before..before, &large);
        let group = Group::Alone;
        undo.record(Step { at: before, removed, inserted: large.clone(), before, group });
    }
    assert!(undo.bytes <= MOST_BYTES, "{}", undo.bytes);
    let mut undone = 0;
    while undo.undo(&mut buffer) {
        undone += 1;
    }
    assert_eq!(undone, 8);
    assert_eq!(undo.bytes, 0);
}
