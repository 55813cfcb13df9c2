use serde_json::{Value, json};

use super::super::testing::Signer;
use super::*;

const NOW: i64 = 1_800_000_000;

const EXPECTED: TokenRequirements<'static> =
    TokenRequirements { issuer: "https://id.example", client_id: "vestal", nonce: "n-1", now: NOW };

fn claims(changes: &Value) -> Value {
    let mut claims = json!({
        "iss": "https://id.example", "sub": "248289761001", "aud": "vestal", "nonce": "n-1",
        "exp": NOW + 300, "iat": NOW, "email": "ann@example.org", "email_verified": true,
    });
    for (name, value) in changes.as_object().unwrap() {
        if value.is_null() {
            claims.as_object_mut().unwrap().remove(name);
        } else {
            claims[name] = value.clone();
        }
    }
    claims
}

fn keys(signer: &Signer) -> KeySet {
    serde_json::from_value(signer.keys()).unwrap()
}

#[test]
fn a_token_is_believed_where_all_of_it_is_right() {
    let signer = Signer::new();
    let person = verify(&signer.token(&claims(&json!({}))), &keys(&signer), &EXPECTED).unwrap();
    assert_eq!(person.subject, "248289761001");
    assert_eq!(person.profile.verified_mail(), Some("ann@example.org"));
    let unverified = claims(&json!({ "email_verified": false }));
    let person = verify(&signer.token(&unverified), &keys(&signer), &EXPECTED).unwrap();
    assert_eq!(person.profile.verified_mail(), None);
    let several = claims(&json!({ "aud": ["other", "vestal"], "azp": "vestal" }));
    assert!(verify(&signer.token(&several), &keys(&signer), &EXPECTED).is_ok());
}

#[test]
fn a_token_with_anything_wrong_about_it_is_not_believed() {
    let signer = Signer::new();
    let cases = [
        (
            json!({ "iss": "https://evil.example" }),
            TokenError::Issuer("https://evil.example".into()),
        ),
        (json!({ "iss": "https://id.example/" }), TokenError::Issuer("https://id.example/".into())),
        (json!({ "aud": "another" }), TokenError::Audience),
        (json!({ "aud": ["vestal", "another"] }), TokenError::Audience),
        (json!({ "aud": ["vestal", "another"], "azp": "another" }), TokenError::Audience),
        (json!({ "azp": "another" }), TokenError::Audience),
        (json!({ "nonce": "n-2" }), TokenError::Nonce),
        (json!({ "nonce": null }), TokenError::Nonce),
        (json!({ "exp": NOW - 61 }), TokenError::Expired),
        (json!({ "iat": NOW - 3600, "exp": NOW + 3600 }), TokenError::Expired),
        (json!({ "iat": NOW + 61 }), TokenError::Future),
        (json!({ "sub": "" }), TokenError::Subject),
        (json!({ "sub": "x".repeat(256) }), TokenError::Subject),
        (json!({ "sub": null }), TokenError::Malformed),
        (json!({ "exp": null }), TokenError::Malformed),
    ];
    for (change, expected) in cases {
        let token = signer.token(&claims(&change));
        assert_eq!(verify(&token, &keys(&signer), &EXPECTED).unwrap_err(), expected, "{change}");
    }
}

#[test]
fn only_a_key_of_the_provider_signs() {
    let (signer, other) = (Signer::new(), Signer::new());
    let fine = claims(&json!({}));
    let check = |token: &str| verify(token, &keys(&signer), &EXPECTED).unwrap_err();
    assert_eq!(check(&other.token(&fine)), TokenError::Signature);
    let unknown = signer.sign(&json!({ "alg": "ES256", "kid": "two" }), &fine);
    assert_eq!(check(&unknown), TokenError::Key);
    // The signature is of another algorithm than its key.
    let confused = signer.sign(&json!({ "alg": "RS256", "kid": "one" }), &fine);
    assert_eq!(check(&confused), TokenError::Key);
    for alg in ["none", "HS256", "None", ""] {
        let unsigned = signer.sign(&json!({ "alg": alg, "kid": "one" }), &fine);
        assert_eq!(check(&unsigned), TokenError::Algorithm(alg.to_owned()));
    }
    let critical = signer.sign(&json!({ "alg": "ES256", "crit": ["b64"] }), &fine);
    assert_eq!(check(&critical), TokenError::Algorithm("ES256".to_owned()));
    // What was signed is changed afterwards.
    let token = signer.token(&fine);
    let parts: Vec<&str> = token.split('.').collect();
    let changed = URL_SAFE_NO_PAD.encode(claims(&json!({ "sub": "1" })).to_string());
    assert_eq!(check(&format!("{}.{changed}.{}", parts[0], parts[2])), TokenError::Signature);
    assert_eq!(check(&format!("{}.{}.", parts[0], parts[1])), TokenError::Signature);
    for broken in ["", ".", "a.b", "a.b.c", "a.b.c.d", &"x".repeat(MAX_TOKEN + 1)] {
        assert_eq!(check(broken), TokenError::Malformed, "{broken:.10}");
    }
}
