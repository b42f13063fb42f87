"""Rules for telephone, e-mail and network addresses (contact), postal codes and addresses."""

from __future__ import annotations

from audit.deid.labels import CONTACT
from audit.deid.labels import QUASI_IDENTIFIER as QUASI
from audit.deid.rule import CUED, HAN, HIRA, KATA, LOOSE, Rule, rule

PREFECTURES = (
    "北海道|青森県|岩手県|宮城県|秋田県|山形県|福島県|茨城県|栃木県|群馬県|埼玉県|千葉県"
    "|東京都|神奈川県"
    "|新潟県|富山県|石川県|福井県|山梨県|長野県|岐阜県|静岡県|愛知県|三重県|滋賀県|京都府"
    "|大阪府|兵庫県"
    "|奈良県|和歌山県|鳥取県|島根県|岡山県|広島県|山口県|徳島県|香川県|愛媛県|高知県|福岡県"
    "|佐賀県|長崎県"
    "|熊本県|大分県|宮崎県|鹿児島県|沖縄県"
)
_BIG_CITIES = (
    "札幌市|仙台市|さいたま市|千葉市|横浜市|川崎市|相模原市|新潟市|静岡市|浜松市|名古屋市"
    "|京都市|大阪市"
    "|堺市|神戸市|岡山市|広島市|北九州市|福岡市|熊本市|八王子市|金沢市|長崎市|鹿児島市|那覇市"
    "|宇都宮市"
)
_PLACE = rf"[{HAN}{KATA}{HIRA}]"
_BLOCK = r"(?:[0-9〇一二三四五六七八九十]+(?:丁目|番地|番|号|-|の(?=[0-9]))? ?){1,5}"
_BUILDING = (
    rf"(?: ?[{HAN}{KATA}A-Za-z0-9ぁ-ん・-]{{1,20}}(?:マンション|ハイツ|アパート|コーポ|荘|ビル"
    rf"|団地|レジデンス"
    r"|ハイム|メゾン|パレス|号室)(?: ?[0-9A-Z-]{1,6}(?:号室?|階)?)?)?"
)
_TOWNS = rf"(?:{_PLACE}{{1,6}}?(?:市|郡|区|町|村)){{1,3}}"
_DASH = r"[-.ー ]"
_STATES = (
    "AL|AK|AZ|AR|CA|CO|CT|DE|FL|GA|HI|ID|IL|IN|IA|KS|KY|LA|ME|MD|MA|MI|MN|MS|MO|MT|NE|NV|NH|NJ"
    "|NM|NY"
    "|NC|ND|OH|OK|OR|PA|RI|SC|SD|TN|TX|UT|VT|VA|WA|WV|WI|WY|DC"
)
_STREET = (
    r"(?:Street|St|Avenue|Ave|Road|Rd|Boulevard|Blvd|Drive|Dr|Lane|Ln|Court|Ct|Way|Place|Pl|Parkway"
    r"|Pkwy|Terrace|Circle|Highway|Hwy|Square)"
)

CONTACTS: tuple[Rule, ...] = (
    rule(
        "e-mail",
        CONTACT,
        r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9][A-Za-z0-9._%+-]{0,63}@"
        r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.){1,5}[A-Za-z]{2,12}(?![A-Za-z0-9])",
        weight=CUED + 1,
        signs="@",
    ),
    rule(
        "web address",
        CONTACT,
        r"(?:https?://|www\.)[A-Za-z0-9][A-Za-z0-9./_~%#?&=:+-]{2,200}[A-Za-z0-9/]",
        weight=CUED + 1,
        signs="http www.",
    ),
    rule(
        "network address",
        CONTACT,
        r"(?<![0-9.])(?:(?:25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])\.){3}(?:25[0-5]|2[0-4][0-9]"
        r"|1?[0-9]?[0-9])"
        r"(?![0-9.])",
    ),
    rule(
        "ja telephone",
        CONTACT,
        rf"(?<![0-9A-Za-z.-])(?:\+81 ?-? ?|0)(?:[0-9]{{1,4}}{_DASH}?\([0-9]{{1,4}}\){_DASH}?"
        rf"|[0-9]{{1,4}}{_DASH}[0-9]{{1,4}}{_DASH})[0-9]{{3,4}}(?![0-9-])",
    ),
    rule(
        "ja telephone with brackets",
        CONTACT,
        r"(?<![0-9A-Za-z.-])\(0[0-9]{1,4}\) ?[0-9]{1,4}[-ー ]?[0-9]{3,4}(?![0-9-])",
    ),
    rule("ja mobile in one piece", CONTACT, r"(?<![0-9A-Za-z.-])0[5789]0[0-9]{8}(?![0-9A-Za-z-])"),
    rule(
        "telephone after a cue",
        CONTACT,
        r"(?:電話|携帯|連絡先|直通|自宅|勤務先|FAX|Fax|ファックス|ファクス|TEL|Tel|℡|☎"
        r"|\b[Pp]hone|\b[Pp]ager"
        r"|\b[Cc]ell|\b[Tt]elephone|\b[Ff]ax|\b[Bb]eeper)(?:番号|電話|No\.?| number| no\.?)?\.?"
        r"(?: ?\([^()\n0-9]{1,6}\))? ?[:#=は]? ?(?P<value>\+?[(]?[0-9][0-9() -]{2,18}[0-9])"
        r"(?![0-9])",
        weight=CUED,
    ),
    rule(
        "extension",
        CONTACT,
        r"(?:内線|PHS|ピッチ|\b[Ee]xt(?:ension)?\.?|\bx(?=[0-9])) ?(?:番号)?[:=]? ?"
        r"(?P<value>[0-9]{3,6})(?![0-9])",
        weight=CUED,
    ),
    rule(
        "en telephone",
        CONTACT,
        r"(?<![0-9A-Za-z.-])(?:\+?1[-. ]?)?(?:\([2-9][0-9]{2}\) ?"
        r"|[2-9][0-9]{2}[-. ])[0-9]{3}[-. ][0-9]{4}"
        r"(?: ?x[0-9]{2,5})?(?![0-9-])",
    ),
)

PLACES: tuple[Rule, ...] = (
    rule(
        "ja postal code",
        QUASI,
        r"(?:〒|郵便番号) ?[:]? ?(?P<value>[0-9]{3}[-ー]?[0-9]{4})(?![0-9])",
        weight=CUED,
        signs="〒 郵便番号",
    ),
    rule(
        "ja address",
        QUASI,
        rf"(?:{PREFECTURES})(?:{_TOWNS}(?:{_PLACE}{{0,10}}?{_BLOCK}{_BUILDING})?)?"
        rf"(?!立|内の?病院|医師会|[{HAN}]{{0,6}}(?:病院|医院|大学|センター))",
        signs="都 道 府 県",
    ),
    rule(
        "ja address of a large city",
        QUASI,
        rf"(?:{_BIG_CITIES})(?:{_PLACE}{{1,5}}?区)?(?:{_PLACE}{{0,10}}?{_BLOCK}{_BUILDING})?"
        rf"(?!立|[{HAN}]{{0,6}}(?:病院|医院|大学|センター))",
        signs="市",
    ),
    rule(
        "ja address after a cue",
        QUASI,
        r"(?:住所|居住地|現住所|本籍|本籍地|出身地|勤務先住所) ?[:=] ?(?:〒?[0-9]{3}-?[0-9]{4} ?)?"
        r"(?P<value>[^\s,。、;:〒][^\n。、;:]{1,60}?)(?=\n|$|。|、|;| {2}| ?(?:電話|TEL|Tel|℡"
        r"|携帯|氏名|年齢|性別|生年))",
        weight=CUED,
        signs="住所 居住地 本籍 出身地",
    ),
    rule(
        "ja town where somebody lives",
        QUASI,
        rf"(?P<value>[{HAN}{KATA}]{{1,6}}(?:市|町|村|区|県|都|府|島))(?=在住|出身|に(?:住|在住"
        rf"|居住)|へ転居)",
        weight=LOOSE,
        signs="在住 出身 住 転居",
    ),
    rule(
        "en street",
        QUASI,
        rf"\b[0-9]{{1,5}} (?:[NSEW]\.? )?(?:[A-Z][a-z]+ ){{1,3}}{_STREET}\b\.?(?:,? (?:Apt"
        rf"|Suite|Unit|#)\.? ?[0-9A-Z-]{{1,6}})?",
    ),
    rule(
        "en town and state",
        QUASI,
        rf"\b(?:[A-Z][a-z]+ ){{0,2}}[A-Z][a-z]+, (?:{_STATES})(?: [0-9]{{5}}(?:-[0-9]{{4}})?)?\b",
    ),
    rule(
        "en postal code after a cue",
        QUASI,
        r"\b(?:[Zz]ip|ZIP)(?: ?[Cc]ode| CODE)? ?[:=]? ?(?P<value>[0-9]{5}(?:-[0-9]{4})?)\b",
        weight=CUED,
        signs="ip IP",
    ),
)

RULES = (*CONTACTS, *PLACES)
