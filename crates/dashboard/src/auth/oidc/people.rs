//! Which people may log in, and with what right. Only those who are named may.

use crate::gate::Right;

/// People by what a provider calls them: a subject, or an address of mail that the provider has verified.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct People {
    operators: Vec<String>,
    viewers: Vec<String>,
}

impl People {
    /// Reads two lists whose entries are separated by commas.
    pub fn parse(operators: &str, viewers: &str) -> Self {
        let names = |text: &str| -> Vec<String> {
            let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
            names.map(str::to_owned).collect()
        };
        Self { operators: names(operators), viewers: names(viewers) }
    }

    /// Reports whether nobody is named.
    pub fn is_empty(&self) -> bool {
        self.operators.is_empty() && self.viewers.is_empty()
    }

    /// Reports whether somebody is named by their address of mail.
    pub(crate) fn has_mail(&self) -> bool {
        self.operators.iter().chain(&self.viewers).any(|name| name.contains('@'))
    }

    /// Returns what somebody of this name may do; nothing if they are not named.
    pub(crate) fn right_of(&self, name: &str) -> Option<Right> {
        let has = |names: &[String]| names.iter().any(|own| is_same(own, name));
        if has(&self.operators) {
            Some(Right::Operator)
        } else if has(&self.viewers) {
            Some(Right::Viewer)
        } else {
            None
        }
    }

    /// Returns what somebody may do whom a proxy has let in: everything, unless the lists say otherwise.
    pub(crate) fn right_of_proxied(&self, name: &str) -> Right {
        let rest = if self.operators.is_empty() { Right::Operator } else { Right::Viewer };
        self.right_of(name).unwrap_or(rest)
    }

    /// Finds somebody by their subject or their verified address, and returns the name that was found
    /// with what it may do.
    pub(crate) fn find<'n>(
        &self,
        subject: &'n str,
        mail: Option<&'n str>,
    ) -> Option<(&'n str, Right)> {
        // A subject with an @ in it is not taken for an address that nobody has verified.
        let named = |name: &'n str| self.right_of(name).map(|right| (name, right));
        let by_subject = Some(subject).filter(|subject| !subject.contains('@')).and_then(named);
        let by_mail = mail.filter(|mail| mail.contains('@')).and_then(named);
        match (by_mail, by_subject) {
            (Some(mail), Some(subject)) if subject.1 > mail.1 => Some(subject),
            (Some(mail), _) => Some(mail),
            (None, subject) => subject,
        }
    }
}

/// Subjects are compared exactly, addresses of mail whatever their case.
fn is_same(own: &str, name: &str) -> bool {
    if own.contains('@') { own.eq_ignore_ascii_case(name) } else { own == name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whom_a_proxy_names_is_an_operator_unless_the_lists_say_otherwise() {
        let right =
            |operators, viewers, name| People::parse(operators, viewers).right_of_proxied(name);
        assert_eq!(right("", "", "ann"), Right::Operator);
        assert_eq!(right("", "bob", "bob"), Right::Viewer);
        assert_eq!(right("", "bob", "ann"), Right::Operator);
        assert_eq!(right("ann", "", "ann"), Right::Operator);
        assert_eq!(right("ann", "", "bob"), Right::Viewer);
    }

    #[test]
    fn nobody_comes_in_who_is_not_named() {
        let nobody = People::parse("", " , ");
        assert!(nobody.is_empty());
        assert_eq!(nobody.find("a", Some("a@example.org")), None);
        let people = People::parse("Ann@example.org, 248289761001", "bob@example.org,viewer");
        assert!(people.has_mail());
        let find = |subject, mail| people.find(subject, mail);
        assert_eq!(find("x", Some("ann@EXAMPLE.org")), Some(("ann@EXAMPLE.org", Right::Operator)));
        assert_eq!(find("248289761001", None), Some(("248289761001", Right::Operator)));
        assert_eq!(find("x", Some("bob@example.org")), Some(("bob@example.org", Right::Viewer)));
        assert_eq!(find("Viewer", None), None, "subjects have a case");
        assert_eq!(find("x", None), None);
        assert_eq!(find("ann@example.org", None), None, "a subject is not a verified address");
        assert_eq!(find("x", Some("248289761001")), None, "and an address is not a subject");
        let both = find("248289761001", Some("bob@example.org"));
        assert_eq!(both, Some(("248289761001", Right::Operator)), "the greater right of the two");
    }
}
