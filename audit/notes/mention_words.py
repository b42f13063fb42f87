"""Words, placeholders and marks of the few characters beside an age, with what each may be.

Comes in: a text and a place. Goes out: tokens with offsets; nothing is looked at beyond a fixed
number of characters, so that the work is linear in the length of the text.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from audit.notes.placeholders import find_name_slot
from audit.text import fold_name

ENGLISH_FORMS = (
    "is_a",
    "is_old",
    "appositive",
    "comma",
    "bracket",
    "dash",
    "direct",
    "after_comma",
    "after_named",
    "after_direct",
    "after_bracket",
)
"""By what stands between name and age: "X is a 70-year-old", "X is 70 years old", "X, a 70-year-
old", "X, 70 yo M", "X (70 yo M)", "X - 70 yo M", "X 70 yo M"; and with the age first: "man, X,",
"man named X", "70-year-old X", "man (X)"."""
JAPANESE_FORMS = ("ja_is", "ja_bracket", "ja_comma", "ja_after", "ja_fields")
"""Xは70歳男性, X(70歳,男性), X、70歳、男性, 70歳男性のX, 氏名:X 年齢:70歳."""
FORMS = ENGLISH_FORMS + JAPANESE_FORMS

REASONS = ("generic", "relative", "stub", "none", "unclear")
"""Why an age has no mention: the subject is "the patient" or "he"; a relative; a letter or "ABC" in
a name's place; there is no subject beside it; a subject that was not understood."""


@dataclass(frozen=True)
class Mention:
    """One person's name, or the placeholder in its place, beside an age.

    Attributes
    ----------
    start, end
        Offsets in the text: from the name or the age, whichever is first, to the end of the other
        or of the word for the sex.
    name_start, name_end
        Offsets of the name with all between its first and last part, the title left out.
    first, last
        As written, without middle names and suffixes; either may be empty (a name of one part is
        the last name). Both are empty for placeholders.
    roles
        What is written, in order: ("first", "last"), ("last", "first"), ("last",), ("first",) or
        ("full",) for one placeholder that stands for the whole name.
    title
        "mr", "dr" ...; "" where there is none.
    age_years
        NaN where the age is a placeholder.
    sex
        "male", "female" or "" where it is not said.
    form
        One of `FORMS`.
    is_placeholder
        Whether the name is a placeholder.
    """

    start: int
    end: int
    name_start: int
    name_end: int
    first: str
    last: str
    roles: tuple[str, ...]
    title: str
    age_years: float
    sex: str
    form: str
    is_placeholder: bool

    def __post_init__(self) -> None:
        """Check offsets and form."""
        if not 0 <= self.start <= self.name_start < self.name_end <= self.end:
            raise ValueError("the name does not lie within the mention")
        if self.form not in FORMS:
            raise ValueError(f"unknown form {self.form!r}")

    @property
    def is_full(self) -> bool:
        """Whether first and last name, or a placeholder for the whole name, are there."""
        return self.roles == ("full",) or len(self.roles) == 2


@dataclass(frozen=True)
class Unnamed:
    """An age with no name beside it.

    `start` and `end` are the offsets of the age; `subject_start` and `subject_end` those of a
    generic subject before it ("The patient"), equal where there is none. `reason` is one of
    `REASONS`.
    """

    start: int
    end: int
    subject_start: int
    subject_end: int
    reason: str


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


MALE = word_set(
    """
    male man gentleman boy males men gentlemen boys wm bm hm aam m
    """
)
FEMALE = word_set(
    """
    female woman lady girl females women ladies girls wf bf hf aaf f
    """
)
SHORT_SEX = {
    **dict.fromkeys(("M", "WM", "BM", "HM", "AM", "AAM"), "male"),
    **dict.fromkeys(("F", "WF", "BF", "HF", "AF", "AAF"), "female"),
}
"""Abbreviations, in capitals: M, F, and those with a letter for the ethnic group before it."""

TITLES = word_set(
    """
    mr mrs ms miss mx dr prof professor rev reverend rabbi deacon captain capt sergeant sgt
    master sister mister madam
    """
)
STAFF_TITLES = word_set("dr prof professor")
SUFFIXES = word_set("jr sr ii iii iv md phd rn np pa do esq")
PARTICLES = word_set(
    """
    de la le du da das dos del della di van von der den ter ten bin binti ibn al el y zu st af
    av
    """
)
NO_END = word_set("mr mrs ms mx dr prof rev st jr sr esq")
"""Words whose full stop ends no sentence."""

OWNERS = word_set("of by from with for to")
"""What makes the name behind it somebody else's: "the son of", "referred by", "a friend of"."""

THINGS = word_set(
    """
    hospital institution organization organisation company center centre clinic facility program
    building house home device valve stent graft prosthesis implant pacemaker catheter lesion
    fracture injury wound scar diagnosis problem history prescription
    """
)
"""What an age without a sex may be of."""

COPULAS = word_set("is was remains being")
ARTICLES = word_set("a an the this that our another my")
ADVERBS = word_set(
    """
    currently now then presently still also essentially basically otherwise actually again
    already just approximately about roughly nearly almost only apparently reportedly
    """
)
AS = word_set(
    """
    as be to presents presented appears appeared seems described known
    """
)
NAMED = word_set("named called")

RELATIVES = word_set(
    """
    mother father mom dad wife husband spouse partner sister brother sibling son daughter aunt
    uncle cousin grandmother grandfather niece nephew child children twin fiance fiancee
    girlfriend boyfriend caregiver neighbor friend roommate donor stepfather stepmother
    mother-in-law father-in-law parent guardian proxy roommate's
    """
)
GENERIC = word_set(
    """
    deceased decedent victim participant volunteer
    patient pt pts this he she it who that client subject resident individual person infant
    baby newborn neonate child case claimant veteran student informant examinee which there
    they we i you her his their these those
    """
)

NO_NAMES = word_set(
    """
    a an the and or but nor so yet of in on at by for from to with without about as into over
    under after before since until while when where why how if then than because though although
    however therefore thus hence moreover furthermore meanwhile otherwise also again once here
    now today yesterday tomorrow tonight currently recently initially previously presently
    briefly clinically unfortunately fortunately reportedly apparently additionally finally
    essentially basically historically medically subsequently interestingly notably overall
    originally allegedly typically usually generally specifically importantly similarly likewise
    accordingly summary brief conclusion regarding re concerning per dear thank thanks hello hi
    please see saw seen met evaluated examined interviewed discussed admitted transferred
    referred consulted both each every any some no not yes none only very most more many much
    such our your my their his her its is was are were be been being has have had do does did
    can could will would shall should might must patient patients pt name full surname
    firstname lastname client subject resident attending physician physicians doctor doctors
    surgeon surgeons nurse assistant anesthesiologist cardiologist neurologist radiologist
    pathologist author provider intern fellow team staff informant historian guardian emergency
    contact witness veteran mr mrs ms history histories present illness chief complaint
    complaints reason reasons visit admission admit dates discharge disposition diagnosis
    diagnoses impression assessment plan subjective objective course hospital hospitalization
    past medical surgical social family medication medications meds allergies allergy review
    systems physical exam examination vital vitals signs indication indications procedure
    procedures operation operative operations preoperative postoperative preop postop findings
    finding description technique complications condition consult consultation referral service
    services department unit floor room clinic report note notes progress followup follow up
    interval update updates addendum identification identifying id information data demographics
    background clinical statement problem problems list events event status code part results
    result labs laboratory imaging study studies radiology pathology specimen comparison
    comments comment opinion discussion prognosis recommendation recommendations instructions
    followed evaluation intake screening age sex gender race ethnicity account number record
    file sources source electronically signed dictated transcribed cosigned completed end new
    old initial final preliminary general general's psychiatric neurological cardiac pulmonary
    medicine surgery cardiology neurology neurosurgery oncology hematology orthopedics urology
    psychiatry gynecology obstetrics pediatrics ophthalmology nephrology pulmonology dermatology
    gastroenterology endocrinology rheumatology otolaryngology anesthesia anesthesiology trauma
    caucasian african american african-american afro-american hispanic latino latina latin asian
    indian native chinese japanese korean vietnamese filipino cuban mexican puerto rican haitian
    russian polish italian greek spanish portuguese english-speaking spanish-speaking
    russian-speaking arabic cantonese mandarin samoan european caucasian-american right-handed
    left-handed right left handed pleasant elderly jewish catholic buddhist jehovah jehovah's
    male female man woman gentleman lady boy girl married widowed divorced retired disease
    syndrome cancer carcinoma lymphoma leukemia diabetes mellitus type hypertension s/p xray
    x-ray ultrasound echo echocardiogram scan biopsy pain chest abdominal knee hip shoulder neck
    fever cough nausea vomiting syncope seizure seizures stroke infection sepsis pneumonia
    asthma anemia fracture failure lung liver kidney renal brain breast prostate
    weakness fatigue dizziness shortness breath dyspnea palpitations bleed bleeding hemorrhage
    mental altered change changes injury accident collision motor vehicle overdose withdrawal
    alcohol abuse dementia depression anxiety psychosis grade score bilateral acute chronic
    severe mild moderate stable unstable known unknown positive negative aspirin tylenol lasix
    coumadin plavix heparin insulin penicillin sulfa codeine morphine lipitor metoprolol
    lisinopril oxygen vitamin gravida para smoker nonsmoker non-smoker former current athlete
    active obese healthy dominant primigravida multigravida nulliparous pregnant postmenopausal
    ambulatory service-connected wound graft valve stent catheter monday tuesday wednesday
    thursday friday saturday sunday january february july september october november december
    days week month months year years hour hours am pm morning afternoon evening night
    time times center centre medical-center university institute nursing home avenue road county
    state united states america vietnam korea iraq war world army corps boston
    """
)
SHOUTED_NO_NAMES = word_set(
    """
    chf cad copd esrd ckd afib htn dm hiv aml cll cml mds mvc mva sp pmh psh gerd bph dvt pe mi
    cva tia uti cabg pci avr mvr tavr icd egd ercp erp ekg ecg eeg emg ct cta mri mra hpi cc ros
    icu micu sicu ccu csru tsicu nicu picu ed er pacu ob gyn obgyn ent med ortho neuro cardio
    dob mrn ssn nkda nka all aids g1 g2 g3 p1 p2
    """
)
"""Abbreviations: no names in capitals ("TIA"), but names in small letters ("Tia")."""

SELDOM_NAMES = word_set(
    """
    may date parent cousin child colon heart weeks
    white black day case page house street head back fall french english german irish christian
    marine march single muslim force navy noon gross section city heavy stage class short
    """
)
"""No names alone, but beside a name: "James White", "Christian Jones"."""
SELDOM_FIRST_NAMES = word_set("christian may german")
"""Those of them that are first names."""

PLACE_WORDS = word_set("in at from near of to on")
"""What stands before a place: "in Boston, John is" is no "Boston, John"."""

JAPANESE_SURNAMES = word_set(
    """
    佐藤 鈴木 高橋 田中 伊藤 渡辺 渡邊 渡邉 山本 中村 小林 加藤 吉田 山田
    佐々木 山口 松本 井上 木村 林 斎藤 斉藤 齋藤 齊藤 清水 山崎 森 池田 橋本
    阿部 石川 山下 中島 石井 小川 前田 岡田 長谷川 藤田 後藤 近藤 村上
    遠藤 青木 坂本 福田 太田 西村 藤井 金子 岡本 藤原 三浦 中野 中川 原田 松田
    竹内 小野 田村 中山 和田 石田 森田 上田 原 内田 柴田 酒井 宮崎 横山
    高木 安藤 宮本 大野 小島 工藤 谷口 今井 高田 丸山 増田 杉山 村田 大塚 新井
    小山 平野 藤本 河野 上野 野口 武田 松井 千葉 菅原 岩崎 久保 木下
    佐野 野村 松尾 市川 菊地 菊池 杉本 古川 大西 島田 水野 桜井 高野 渡部 吉川
    山内 西田 飯田 西川 小松 北村 安田 五十嵐 川口 関 平田 中田 久保田
    東 服部 川崎 岩田 土屋 本田 福島 辻 樋口 秋山 田口 永井 山中 中西 吉村
    川上 大橋 石原 松岡 馬場 浜田 森本 星野 矢野 浅野 大島 吉岡 小池
    野田 荒木 熊谷 松浦 大久保 内藤 黒田 尾崎 川村 永田 望月 松村 荒井 堀 西山
    平井 大石 本間 早川 東 児玉 岡崎 片山 須藤 広瀬 関口 森下 石黒 岡
    菅野 津田 若松 江口 黒木 榎本 桑原 福井 三宅 川島 白石 今村 栗原 小田 成田
    岩本 杉浦 宮田 村井 大川 長尾 松下 小沢 小澤 奥村 柳 沢田 澤田 塚本
    河合 堀内 神田 植田 八木 坂口 宮川 鎌田 根本 甲斐 吉野 笠原 飯塚 日高 加納
    藤川 加藤 青山 大谷 織田 徳川 豊田 本多 宇野 小笠原 南 西 北 平山
    竹田 大山 上原 比嘉 金城 宮城 新垣 三好 土井 相馬 篠原 川端 稲垣 滝沢 瀬戸
    李 朴 崔 陳 劉 趙 鄭 尹
    相沢 長野 藤村 堤 秋元 鶴田 大竹 河村 奥田 川田 西尾 北川 片岡 岸 森山
    手塚 湯浅 石橋 柏木 真田 長岡 水谷 牧野 三上 大森
    浅井 安部 荒川 有馬 有田 有村 有吉 有賀 飯島 池上 石塚 石丸 磯部 市村 伊東 稲葉 井口 岩井
    岩下 岩瀬 岩間 上村 植村 臼井 内山 梅田 梅原 江藤 遠山 大内 大木 大城 大場 大原 大河内 岡部
    岡村 沖田 奥山 落合 小野寺 尾形 小倉 小原 柿沼 梶原 金井 金田 神谷 川井 川原 川本 河田 河原
    菊田 木原 木本 桐山 草野 日下部 久我 久野 倉田 黒川 黒沢 桑田 小泉 小出 古賀 小坂 小西 小宮
    酒巻 桜木 佐久間 佐竹 沢井 西園寺 塩田 塩谷 志村 柴崎 島崎 下田 庄司 白井 白川 新谷 杉原
    杉村 鈴村 首藤 関根 曽根 園部 高井 高瀬 高見 高村 高柳 竹中 竹村 武藤 立花 足立 田代 田島
    田辺 玉井 丹羽 千田 塚田 土田 筒井 角田 手島 手嶋 時田 徳永 戸田 戸部 富永 中井 中尾 中嶋
    中谷 永野 長沢 名取 成瀬 新田 西岡 西野 西原 二宮 根岸 野上 野崎 野沢 野中 萩原 橋口 羽田
    浜口 浜野 林田 早坂 原口 樋渡 日野 平川 平沢 平松 広田 深沢 福永 福原 藤岡 藤沢 藤野 藤森
    古田 保坂 細川 細谷 堀川 堀田 本庄 前川 前島 前嶋 前原 前野 前山 前沢 増井 松崎 松永 松原
    丸田 三島 水上 水口 溝口 皆川 宮内 宮下 宮野 宮部 向井 村松 室井 目黒 門脇 元木 森岡 森川
    森永 矢島 矢部 安井 谷川 薬師寺 柳沢 柳田 山岸 山根 山村 山室 山脇 結城 湯川 横井 横田
    与那嶺 与田 吉井 吉沢 吉永 吉原 米田 米山 若林 若山 脇田 脇坂 脇本 渡会 渡瀬 和泉 鷲尾
    伊集院 東海林 武者小路
    """
)
"""Family names, for telling where one ends; a name need not be here to be found."""

JAPANESE_KANA_NAMES = word_set(
    """
    あい あかね あかり あき あきこ あさみ あずさ あや あやか あやこ あゆみ いずみ うめ えみ
    えみこ えり えりか えりこ かえで かおり かおる かずえ かずこ かずみ かなえ かな かほ かよこ
    きみえ きよこ くみ くみこ くるみ けいこ こころ このみ さおり さき さくら さち さちこ さつき
    さとこ さとみ さとる さやか さゆり しおり しげる しず しずか しのぶ しほ じゅん じゅんこ
    しょうこ すず すみれ すみこ たえこ たかし たけし たまき ちえ ちえこ ちか ちづる ちはる
    ちひろ ちよ つかさ つばさ つばき ときこ とみこ とめ ともこ ともみ なおこ なおみ なおと
    なつき なつみ なな ななこ ななみ のぞみ のどか のぶこ はじめ はつえ はな はなこ はるか
    はるき はるな はるみ ひかり ひかる ひさこ ひとみ ひな ひなた ひより ひろこ ひろし ひろみ
    ふさ ふみ ふみえ ふみこ ほのか まい まき まこと まさ まさこ まさる まなみ まみ まゆ まゆみ
    まり まりこ みお みか みき みさ みさき みずき みちこ みつこ みどり みなみ みのる みほ みゆき
    めい めぐみ もえ もも ももか ももこ やえ やすこ やよい ゆい ゆうか ゆうき ゆうこ ゆうと ゆか
    ゆかり ゆき ゆきえ ゆきこ ゆみ ゆみこ ゆり ゆりこ よしえ よしこ りえ りお りか りこ りさ
    りな りん るみ れい れいこ れな わかな だいき だいち まさと たくみ りく
    """
)
"""Given names in kana, in hiragana: a name of which the family name is not on the list."""

JAPANESE_NO_NAMES = tuple(
    sorted(
        word_set(
            """
    患者 症例 本例 本症 自験 主訴 現病 既往 家族 家系 生活 病歴 入院 退院 外来
    初診 当院 当科 他院 近医 前医 診断 診療 検査 治療 手術 術後 術前 発症 発熱
    紹介 来院 受診 搬送 救急 画像 所見 経過 職業 年齢 性別 氏名 名前 男性 女性
    男児 女児 男子 女子 高齢 若年 平均 中央 合計 対象 方法 結果 考察 結語
    はじめ 背景 目的 母親 父親 両親 祖母 祖父 長男 長女 次男 次女 三男
    三女 息子 娘 夫婦 兄弟 姉妹 同胞 配偶 主婦 会社 無職 自営 農業 学生 喫煙
    飲酒 ドナー レシピエント 高血圧 糖尿 肝炎 肝硬変 喘息 肺炎 腎不全
    心不全 貧血 脳梗塞 疾患 障害 症候 腫瘍 転移 妊娠 出産 閉経 分娩 死亡 生存
    本人 本邦 今回 以前 当時 現在 最近 同日 翌日 午前 午後 昭和 平成
    令和 大正 明治 医師 看護 主治 担当 教授 病院 医院 病棟 センター クリニック
    約 満 享年 生後 日本 東京都 大阪府 独居 施設 在住 出身 身長 体重
    体温 血圧 意識 以上 以下 未満 前後 内科 外科 小児科 循環器 整形 産婦 泌尿
    皮膚科 眼科 精神科 神経科 サービス コース
    """
        )
    )
)


WINDOW_CHARS = 280
_NO_PART = NO_NAMES | GENERIC | RELATIVES | COPULAS | SELDOM_NAMES
PLACEHOLDER = re.compile(
    r"\[\*\*[^\[\]]{0,200}\*\*\]|[\[［][^\W\d_][^\[\]［］\n]{0,60}[\]］]|_{3,12}"
)
_TOKEN = re.compile(
    rf"(?P<placeholder>{PLACEHOLDER.pattern})"
    r"|(?P<word>[^\W\d_](?:[^\W_]|['’`‐‑-](?=[^\W\d_])){0,60})"
    r"|(?P<number>\d(?:[\w/-]|[.,](?=\d)){0,30})"
    r"|(?P<empty>\n[ \t\r]{0,40}\n)|(?P<line>\n)|(?P<mark>[^\w\s])"
)


class Token(NamedTuple):
    """One token: `kind` is "word", "initial", "placeholder", "number", "mark", "line" or "empty".

    `role` is a placeholder's: "first", "last", "full", "initial" or "other"; "___" is "blank".
    """

    kind: str
    text: str
    start: int
    end: int
    role: str = ""

    @property
    def folded(self) -> str:
        """The word in lower case, with plain apostrophes."""
        return self.text.lower().replace("’", "'").replace("`", "'")

    @property
    def is_capitals(self) -> bool:
        """Whether it is written in capitals, two at least."""
        return len(self.text) > 1 and self.text.isupper()


def tokens_before(text: str, *, at: int) -> list[Token]:
    """Return the tokens of the characters before `at`, in order."""
    first = max(0, at - WINDOW_CHARS)
    if first:
        # Begin between two words, and not within a placeholder.
        cut = text.find(" ", first, at)
        first = cut if cut >= 0 else at
        close = text.find("**]", first, at)
        if close >= 0 and text.find("[**", first, close) < 0:
            first = close + 3
    return _tokens(text, first, at)


def tokens_after(text: str, *, at: int) -> list[Token]:
    """Return the tokens of the characters from `at` on, in order."""
    end = min(len(text), at + WINDOW_CHARS // 2)
    while end < len(text) and text[end - 1].isalnum() and end - at < WINDOW_CHARS:
        end += 1
    return _tokens(text, at, end)


def may_be_name(token: Token, *, known: Collection[str] = ()) -> bool:
    """Whether a token can be a part of a name: a word with a capital that is not listed as none.

    `known` holds parts of names, folded, that count whatever their case.
    """
    if token.kind != "word":
        return False
    if known and fold_name(token.text) in known:
        return True
    if token.is_capitals and token.folded in SHOUTED_NO_NAMES:
        return False
    return token.text[0].isupper() and token.folded not in _NO_PART


def is_plain_word(token: Token) -> bool:
    """Whether a word of three letters at least is on no list: "smith" in "mr. smith"."""
    return token.kind == "word" and len(token.text) > 2 and token.folded not in _NO_PART


def is_seldom_name(token: Token) -> bool:
    """Whether a token is a name only beside another: White, Christian."""
    return token.kind == "word" and token.text[0].isupper() and token.folded in SELDOM_NAMES


def is_adverb(token: Token) -> bool:
    """Whether a word looks like "Surprisingly"; Kelly and Connolly do not."""
    word = token.folded
    return word.endswith("ly") and len(word) > 4 and not word.endswith(("elly", "olly", "illy"))


@functools.lru_cache(maxsize=4096)
def placeholder_role(placeholder: str) -> str:
    """Return "first", "last", "full", "initial", "other", or "blank" for "___"."""
    if placeholder.startswith("_"):
        return "blank"
    if find_name_slot(placeholder):
        return "full"
    # A first name is what makes a pair with a last name, and the other way round.
    if find_name_slot(f"{placeholder} [LAST]"):
        return "first"
    if find_name_slot(f"{placeholder} [FIRST]"):
        return "last"
    if find_name_slot(f"[FIRST] {placeholder} [LAST]"):
        return "initial"
    return "other"


def _tokens(text: str, start: int, end: int) -> list[Token]:
    found: list[Token] = []
    for match in _TOKEN.finditer(text, start, end):
        kind = match.lastgroup or "mark"
        role = placeholder_role(match[0]) if kind == "placeholder" else ""
        if kind == "word" and len(match[0]) == 1 and match[0].isupper():
            kind = "initial"
        if match[0] == "." and found and found[-1].end == match.start() and _keeps_stop(found[-1]):
            continue
        found.append(Token(kind, match[0], match.start(), match.end(), role))
    return found


def _keeps_stop(token: Token) -> bool:
    if token.kind == "word" and token.text[-2:-1] == "-" and token.text[-1].isupper():
        return True  # "Hans-P."
    return token.kind == "initial" or token.folded in NO_END or token.role == "initial"
