"""What tokenizers are made of: word pieces learnt from texts, and codes of languages."""

from __future__ import annotations

import importlib
import io
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

ASCII = "".join(map(chr, range(33, 127)))
PIECES = 1500  # learnt beside single characters
LINES, WORDS, CHARACTERS = 2000, 40, 300  # most lines that are read, words of one, characters beside those of ASCII
# Codes of languages, in the order of their numbers.
MBART = (
    "ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT lv_LV my_MM ne_NP nl_XX "
    "ro_RO ru_RU si_LK tr_TR vi_VN zh_CN af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN "
    "pl_PL ps_AF pt_XX sv_SE sw_KE ta_IN te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI"
)
NLLB = (
    "ace_Arab ace_Latn acm_Arab acq_Arab aeb_Arab afr_Latn ajp_Arab aka_Latn amh_Ethi apc_Arab arb_Arab ars_Arab "
    "ary_Arab arz_Arab asm_Beng ast_Latn awa_Deva ayr_Latn azb_Arab azj_Latn bak_Cyrl bam_Latn ban_Latn bel_Cyrl "
    "bem_Latn ben_Beng bho_Deva bjn_Arab bjn_Latn bod_Tibt bos_Latn bug_Latn bul_Cyrl cat_Latn ceb_Latn ces_Latn "
    "cjk_Latn ckb_Arab crh_Latn cym_Latn dan_Latn deu_Latn dik_Latn dyu_Latn dzo_Tibt ell_Grek eng_Latn epo_Latn "
    "est_Latn eus_Latn ewe_Latn fao_Latn pes_Arab fij_Latn fin_Latn fon_Latn fra_Latn fur_Latn fuv_Latn gla_Latn "
    "gle_Latn glg_Latn grn_Latn guj_Gujr hat_Latn hau_Latn heb_Hebr hin_Deva hne_Deva hrv_Latn hun_Latn hye_Armn "
    "ibo_Latn ilo_Latn ind_Latn isl_Latn ita_Latn jav_Latn jpn_Jpan kab_Latn kac_Latn kam_Latn kan_Knda kas_Arab "
    "kas_Deva kat_Geor knc_Arab knc_Latn kaz_Cyrl kbp_Latn kea_Latn khm_Khmr kik_Latn kin_Latn kir_Cyrl kmb_Latn "
    "kon_Latn kor_Hang kmr_Latn lao_Laoo lvs_Latn lij_Latn lim_Latn lin_Latn lit_Latn lmo_Latn ltg_Latn ltz_Latn "
    "lua_Latn lug_Latn luo_Latn lus_Latn mag_Deva mai_Deva mal_Mlym mar_Deva min_Latn mkd_Cyrl plt_Latn mlt_Latn "
    "mni_Beng khk_Cyrl mos_Latn mri_Latn zsm_Latn mya_Mymr nld_Latn nno_Latn nob_Latn npi_Deva nso_Latn nus_Latn "
    "nya_Latn oci_Latn gaz_Latn ory_Orya pag_Latn pan_Guru pap_Latn pol_Latn por_Latn prs_Arab pbt_Arab quy_Latn "
    "ron_Latn run_Latn rus_Cyrl sag_Latn san_Deva sat_Beng scn_Latn shn_Mymr sin_Sinh slk_Latn slv_Latn smo_Latn "
    "sna_Latn snd_Arab som_Latn sot_Latn spa_Latn als_Latn srd_Latn srp_Cyrl ssw_Latn sun_Latn swe_Latn swh_Latn "
    "szl_Latn tam_Taml tat_Cyrl tel_Telu tgk_Cyrl tgl_Latn tha_Thai tir_Ethi taq_Latn taq_Tfng tpi_Latn tsn_Latn "
    "tso_Latn tuk_Latn tum_Latn tur_Latn twi_Latn tzm_Tfng uig_Arab ukr_Cyrl umb_Latn urd_Arab uzn_Latn vec_Latn "
    "vie_Latn war_Latn wol_Latn xho_Latn ydd_Hebr yor_Latn yue_Hant zho_Hans zho_Hant zul_Latn"
)
Merges = list[tuple[str, str]]


def lines(texts: Sequence[str]) -> list[str]:
    """Returns texts in lines of some words, in which rare characters beyond ASCII are blanks."""
    words = [word for text in texts for word in text.split()][: LINES * WORDS]
    found = Counter(character for word in words for character in word if character > "~")
    kept = {character for character, _ in sorted(found.items(), key=lambda item: (-item[1], item[0]))[:CHARACTERS]}
    text = "".join(c if " " <= c <= "~" or c in kept else " " for c in " ".join(words))
    split = text.split()
    return [ASCII, " ".join(ASCII), *(" ".join(split[at : at + WORDS]) for at in range(0, len(split), WORDS))]


def bpe(
    lines: Sequence[str], alphabet: Sequence[str], before: object, normaliser: object = None
) -> tuple[list[str], Merges]:
    """Returns word pieces, single characters first, and the merges that make the others."""
    from tokenizers import Tokenizer, models, trainers

    learning: Any = Tokenizer(models.BPE())
    learning.pre_tokenizer = before
    if normaliser is not None:
        learning.normalizer = normaliser
    size = len(set(alphabet) | {character for line in lines for character in line}) + PIECES
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=sorted(alphabet), show_progress=False)
    learning.train_from_iterator(lines, trainer)
    model = json.loads(learning.to_str())["model"]
    return sorted(model["vocab"], key=model["vocab"].__getitem__), [tuple(merge) for merge in model["merges"]]


def sentencepiece(lines: Sequence[str], kind: str, **settings: Any) -> Any:  # noqa: ANN401
    """Returns a model of sentencepiece, as its file holds it."""
    import sentencepiece as library

    proto: Any = importlib.import_module("sentencepiece.sentencepiece_model_pb2")

    written = io.BytesIO()
    characters = len({character for line in lines for character in line})
    library.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=written,
        model_type=kind,
        vocab_size=characters + PIECES + (300 if settings.get("byte_fallback") else 20),
        hard_vocab_limit=False,
        character_coverage=1.0,
        num_threads=1,
        minloglevel=2,
        **settings,
    )
    return proto.ModelProto.FromString(written.getvalue())


def merges(vocabulary: Mapping[str, int]) -> Merges:
    """Returns the merges of a vocabulary whose later word pieces are made of earlier ones."""
    found = []
    for piece, number in vocabulary.items():
        parts = ((piece[:at], piece[at:]) for at in range(1, len(piece)))
        known = [
            (vocabulary[left], vocabulary[right], left, right)
            for left, right in parts
            if left in vocabulary and right in vocabulary
        ]
        found += [(number, *pair) for pair in sorted(known)]
    return [(left, right) for *_, left, right in sorted(found)]
