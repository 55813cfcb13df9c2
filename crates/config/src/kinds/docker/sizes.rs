//! Sizes as `docker run` takes them.

/// Reads a size in bytes: a number, `.` and more digits if need be, and `b`,
/// `k`, `m`, `g`, `t` with `b` or `ib` behind it or not.
pub(super) fn bytes(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at_checked(end)?;
    let suffix = suffix.trim_start().to_ascii_lowercase();
    let shift = match suffix.trim_end_matches("ib").trim_end_matches('b') {
        "" if suffix == "ib" => return None,
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return None,
    };
    scaled(number, 1 << shift)
}

/// Reads a decimal number and multiplies it, rounding down.
pub(in crate::kinds) fn scaled(number: &str, factor: u128) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) || number.ends_with('.') {
        return None;
    }
    // More digits than this make no difference to a whole number of bytes.
    let fraction = fraction.get(..18.min(fraction.len()))?;
    let unit = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let fraction: u128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    let whole: u64 = whole.parse().ok()?;
    let sum = u128::from(whole).checked_mul(factor)?.checked_add(fraction * factor / unit)?;
    u64::try_from(sum).ok()
}
