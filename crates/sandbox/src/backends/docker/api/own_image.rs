//! Images that this program makes, by name.
//!
//! They carry no label: whoever makes a container of one gets nothing of ours.
//! What says whose they are is the name, in which the home is. It begins with
//! `localhost/`, so that no registry is ever asked for it.

use crate::HomeId;

/// What every name begins with.
const PREFIX: &str = "localhost/vestal/";

/// What the tag of an image that a container is made of begins with.
const INSTANCE: &str = "i-";

/// What the tag of an image that is kept begins with.
const SAVED: &str = "s-";

/// What the tag of one that is not finished ends with.
const DRAFT: &str = ".draft";

/// Longest tag.
const MAX_TAG: usize = 128;

/// The name of an image that this program makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::backends::docker) struct OwnImage {
    repository: String,
    tag: String,
}

impl OwnImage {
    /// Returns the name of the image that an instance's container is made of.
    pub(in crate::backends::docker) fn of_instance(home: &HomeId, instance: &str) -> Self {
        Self::new(home, format!("{INSTANCE}{instance}"))
    }

    /// Returns the name of an image that is kept; `random` tells it from others.
    pub(in crate::backends::docker) fn saved(home: &HomeId, random: &str) -> Self {
        Self::new(home, format!("{SAVED}{random}"))
    }

    fn new(home: &HomeId, tag: String) -> Self {
        Self { repository: repository(home), tag }
    }

    /// Reads a name; nothing for one that is not this home's.
    pub(in crate::backends::docker) fn parse(home: &HomeId, name: &str) -> Option<Self> {
        let tag = name.strip_prefix(&repository(home))?.strip_prefix(':')?;
        let plain = tag.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
        let ours = tag.starts_with(INSTANCE) || tag.starts_with(SAVED);
        (plain && ours && tag.len() <= MAX_TAG).then(|| Self::new(home, tag.to_owned()))
    }

    /// Returns the name that it has until it is finished.
    pub(in crate::backends::docker) fn draft(&self) -> Self {
        Self { repository: self.repository.clone(), tag: format!("{}{DRAFT}", self.tag) }
    }

    /// Returns the name that it will have, of one that is not finished.
    pub(in crate::backends::docker) fn finished(&self) -> Self {
        let tag = self.tag.strip_suffix(DRAFT).unwrap_or(&self.tag);
        Self { repository: self.repository.clone(), tag: tag.to_owned() }
    }

    /// Returns the instance whose container is made of it, if it is for one.
    pub(in crate::backends::docker) fn instance(&self) -> Option<&str> {
        self.tag.strip_suffix(DRAFT).unwrap_or(&self.tag).strip_prefix(INSTANCE)
    }

    /// Returns the repository of a home's images.
    pub(in crate::backends::docker) fn repository_of(home: &HomeId) -> String {
        repository(home)
    }

    pub(super) fn repository(&self) -> &str {
        &self.repository
    }

    pub(super) fn tag(&self) -> &str {
        &self.tag
    }
}

fn repository(home: &HomeId) -> String {
    // Nothing else may stand in the name of an image, and a home's id is made of
    // such characters.
    let id: String = home.as_str().chars().filter(char::is_ascii_alphanumeric).collect();
    format!("{PREFIX}{}", id.to_ascii_lowercase())
}

impl std::fmt::Display for OwnImage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.repository, self.tag)
    }
}

#[cfg(test)]
mod tests {
    use super::super::reference::Reference;
    use super::*;

    fn home() -> HomeId {
        HomeId("feedface".into())
    }

    #[test]
    fn a_name_says_whose_it_is_and_that_no_registry_has_it() {
        let own = OwnImage::of_instance(&home(), "0123456789abcdef");
        let name = own.to_string();
        assert_eq!(name, "localhost/vestal/feedface:i-0123456789abcdef");
        assert!(matches!(
            Reference::parse(&name),
            Ok(Reference::Named { registry: "localhost", .. })
        ));
        assert_eq!(OwnImage::parse(&home(), &name), Some(own.clone()));
        assert_eq!(OwnImage::parse(&home(), &own.draft().to_string()), Some(own.draft()));
        assert_eq!(own.draft().finished(), own);
        assert_eq!(own.draft().instance(), Some("0123456789abcdef"));
        assert_eq!(OwnImage::saved(&home(), "ab").instance(), None);
    }

    #[test]
    fn what_others_have_named_is_not_ours() {
        for name in [
            "debian:12",
            "localhost/vestal/feedface",
            "localhost/vestal/feedface:latest",
            "localhost/vestal/feedface2:s-1",
            "localhost/vestal/other:s-1",
            "vestal/feedface:s-1",
            "localhost/vestal/feedface:s-1/../x",
            "localhost/vestal/feedface:s-1?force=true",
        ] {
            assert_eq!(OwnImage::parse(&home(), name), None, "{name}");
        }
    }
}
