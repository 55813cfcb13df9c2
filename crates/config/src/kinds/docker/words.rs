//! Values of flags that are one word.

use std::net::IpAddr;

/// Reports whether text is one word: something, and no white space, controls
/// or leading `-` that would make it a flag.
pub(super) fn is_word(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with('-')
        && !text.contains(|c: char| c.is_whitespace() || c.is_control())
}

pub(super) fn word(text: &str) -> Result<String, String> {
    if is_word(text) { Ok(text.to_owned()) } else { Err("is not one word".to_owned()) }
}

/// Reads one of a few words, or `container:` and which.
pub(super) fn namespace(text: &str, words: &[&str]) -> Result<String, String> {
    let container = text.strip_prefix("container:").is_some_and(is_word);
    if container || words.contains(&text) {
        return Ok(text.to_owned());
    }
    Err(format!("is none of {}, container:NAME", words.join(", ")))
}

pub(super) fn host_only(text: &str) -> Result<String, String> {
    if text == "host" { Ok(text.to_owned()) } else { Err("is not host".to_owned()) }
}

pub(super) fn ip(text: &str) -> Result<String, String> {
    match text.parse::<IpAddr>() {
        Ok(address) => Ok(address.to_string()),
        Err(_) => Err("is no address".to_owned()),
    }
}

/// Reads `NAME:ADDRESS` or `NAME=ADDRESS` and returns it with the colon.
pub(super) fn extra_host(text: &str) -> Result<String, String> {
    let (name, address) =
        text.split_once('=').or_else(|| text.split_once(':')).ok_or("is not NAME:ADDRESS")?;
    let bare = address.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(address);
    let address = match bare {
        "host-gateway" => bare.to_owned(),
        _ => ip(bare).map_err(|_| "is not NAME:ADDRESS, nor NAME:host-gateway".to_owned())?,
    };
    host_name(name).map(|name| format!("{name}:{address}"))
}

pub(super) fn host_name(text: &str) -> Result<String, String> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
    let edge = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric());
    let valid = text.len() <= 253
        && edge(text.bytes().next())
        && edge(text.bytes().last())
        && text.bytes().all(allowed)
        && text.split('.').all(|part| (1..=63).contains(&part.len()));
    if valid { Ok(text.to_owned()) } else { Err("is no name of a host".to_owned()) }
}

/// Reads a capability; `CAP_` in front is taken off, as engines do.
pub(super) fn capability(text: &str) -> Result<String, String> {
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("CAP_").unwrap_or(&upper);
    if !name.is_empty() && name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_') {
        Ok(name.to_owned())
    } else {
        Err("is no capability, such as NET_ADMIN or ALL".to_owned())
    }
}

/// Reads a set of numbers such as `0-3,5`.
pub(super) fn number_set(text: &str) -> Result<String, String> {
    let number = |text: &str| text.parse::<u16>().ok();
    let valid = text.split(',').all(|part| match part.split_once('-') {
        Some((first, last)) => {
            number(first).is_some_and(|first| number(last).is_some_and(|last| first <= last))
        }
        None => number(part).is_some(),
    });
    if valid { Ok(text.to_owned()) } else { Err("is no set of numbers such as 0-3,5".to_owned()) }
}

pub(super) fn integer(text: &str, min: i64, max: i64) -> Result<i64, String> {
    let number = text.parse().ok().filter(|number| (min..=max).contains(number));
    number.ok_or_else(|| format!("is not a whole number from {min} to {max}"))
}

/// Reads `NAME=VALUE`; the name must be made of characters that engines allow.
pub(super) fn assignment(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("is not NAME=VALUE")?;
    let named = !name.is_empty() && name.bytes().all(|b| b.is_ascii_graphic());
    if named && !value.contains('\0') {
        Ok((name.to_owned(), value.to_owned()))
    } else {
        Err("is not NAME=VALUE".to_owned())
    }
}

pub(super) fn platform(text: &str) -> Result<String, String> {
    let part = |text: &str| {
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b))
    };
    if text.split('/').count() <= 3 && text.split('/').all(part) {
        Ok(text.to_owned())
    } else {
        Err("is not OS[/ARCHITECTURE[/VARIANT]]".to_owned())
    }
}
