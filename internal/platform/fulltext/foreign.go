package fulltext

import "strings"

// foreignLines has words of other languages, and after the colon the English words that documents have for them, with
// the weight of those. The synonyms of the first of these stand for the word of the other language, too.
// Words that are English as well, or that English documents have in another meaning, are not among them. Accents do not
// count, and an umlaut can be written with an e.
const foreignLines = `
de erstellen erstelle anlegen anlege erzeugen erzeuge: create 0.95 add 0.7
de hinzufügen hinzufuegen einfügen einfuegen: add 0.95 create 0.8 insert 0.8
de neue neuer neues neuen: new 0.9
de löschen lösche loeschen loesche entfernen entferne: delete 0.95 remove 0.9
de auflisten aufzählen liste listen alle anzeigen zeige zeigen: list 0.9 get 0.8
de abrufen holen abfragen lesen laden: get 0.95
de suchen suche finden finde: search 0.95 find 0.9
de senden sende schicken schicke verschicken versenden: send 0.95 post 0.7
de ändern aendern ändere aktualisieren aktualisiere bearbeiten bearbeite: update 0.95
de umbenennen: rename 0.95
de hochladen: upload 0.95
de herunterladen: download 0.95
de stornieren abbrechen kündigen kuendigen: cancel 0.95
de schließen schliessen schließe: close 0.95
de einladen: invite 0.95
de zuweisen: assign 0.95
de genehmigen freigeben: approve 0.95 share 0.5
de teilen: share 0.95
de verschieben: move 0.95
de kopieren: copy 0.95 duplicate 0.7
de kommentieren: comment 0.95
de veröffentlichen veroeffentlichen: publish 0.95
de erstatten rückerstatten rueckerstatten zurückerstatten zurueckerstatten: refund 0.95
de rechnung rechnungen: invoice 0.95
de kunde kunden kundin: customer 0.95
de zahlung zahlungen bezahlung: payment 0.95
de rückerstattung rückerstattungen rueckerstattung erstattung: refund 0.95
de bestellung bestellungen auftrag aufträge: order 0.95
de produkt produkte: product 0.95
de preis preise: price 0.95
de abonnement abonnements abo abos: subscription 0.95
de nachricht nachrichten: message 0.95
de kanal kanäle kanaele: channel 0.95
de datei dateien: file 0.95
de ordner verzeichnis: folder 0.95
de kalender: calendar 0.95
de termin termine ereignis ereignisse veranstaltung: event 0.95 appointment 0.7
de besprechung besprechungen: meeting 0.95
de benutzer nutzer benutzerin anwender: user 0.95
de mitglied mitglieder: member 0.95
de gruppe gruppen: group 0.95
de konto konten: account 0.95
de kontakt kontakte: contact 0.95
de aufgabe aufgaben: task 0.95
de kommentar kommentare: comment 0.95
de fehler: error 0.8 bug 0.8 issue 0.7
de vorgang: ticket 0.9 issue 0.8
de seite seiten: page 0.95
de tabelle tabellen: table 0.95 spreadsheet 0.8 sheet 0.8
de zeile zeilen: row 0.95
de vorlage vorlagen: template 0.95
de bericht berichte: report 0.95
de anhang anhänge anhaenge: attachment 0.95
de vertrag verträge vertraege: contract 0.95
de einstellung einstellungen: setting 0.95
de bild bilder: image 0.95
de lieferung lieferungen versand: shipment 0.95 shipping 0.8
de umschlag umschläge: envelope 0.95
de projekt projekte: project 0.95
de zweig: branch 0.95

fr créer crée créez ajouter ajoute ajoutez: create 0.95 add 0.9
fr nouveau nouvelle nouvel nouveaux: new 0.9
fr supprimer supprime supprimez effacer enlever retirer: delete 0.95 remove 0.9
fr lister liste afficher affiche tous toutes: list 0.9 get 0.8
fr obtenir récupérer lire voir: get 0.95
fr chercher rechercher trouver recherche: search 0.95 find 0.9
fr envoyer envoie envoyez expédier: send 0.95 post 0.7
fr modifier changer éditer mettre actualiser: update 0.95
fr renommer: rename 0.95
fr téléverser téléversement: upload 0.95
fr télécharger: download 0.95
fr annuler résilier: cancel 0.95
fr fermer: close 0.95
fr inviter: invite 0.95
fr assigner attribuer: assign 0.95
fr approuver: approve 0.95
fr partager: share 0.95
fr déplacer: move 0.95
fr copier: copy 0.95 duplicate 0.7
fr commenter: comment 0.95
fr publier: publish 0.95
fr rembourser remboursement remboursements: refund 0.95
fr facture factures: invoice 0.95
fr paiement paiements: payment 0.95
fr commande commandes: order 0.95
fr produit produits: product 0.95
fr prix tarif tarifs: price 0.95
fr abonnement abonnements: subscription 0.95
fr courriel courriels: email 0.95
fr canal canaux: channel 0.95
fr fichier fichiers: file 0.95
fr dossier dossiers répertoire: folder 0.95
fr calendrier calendriers: calendar 0.95
fr événement événements: event 0.95
fr réunion réunions rendez: meeting 0.95 event 0.7
fr utilisateur utilisateurs utilisatrice: user 0.95
fr membre membres: member 0.95
fr groupe groupes: group 0.95
fr compte comptes: account 0.95
fr tâche tâches: task 0.95
fr commentaire commentaires: comment 0.95
fr erreur: error 0.8 bug 0.8 issue 0.7
fr demande demandes: request 0.9 ticket 0.7
fr dépôt dépôts: repository 0.95
fr feuille feuilles: sheet 0.9 spreadsheet 0.8 table 0.8
fr ligne lignes: row 0.95
fr modèle modèles: template 0.95
fr rapport rapports: report 0.95
fr contrat contrats: contract 0.95
fr paramètre paramètres: setting 0.95
fr livraison livraisons: shipment 0.95
fr enveloppe enveloppes: envelope 0.95
fr projet projets: project 0.95
fr branche branches: branch 0.95

es crear crea crean agregar añadir añade: create 0.95 add 0.9
es nuevo nueva nuevos nuevas: new 0.9
es eliminar elimina borrar borra quitar suprimir: delete 0.95 remove 0.9
es listar lista mostrar muestra ver todos todas: list 0.9 get 0.8
es obtener leer consultar recuperar: get 0.95
es buscar busca encontrar: search 0.95 find 0.9
es enviar envía mandar: send 0.95 post 0.7
es actualizar actualiza modificar cambiar editar: update 0.95
es renombrar: rename 0.95
es subir cargar: upload 0.95
es descargar: download 0.95
es cancelar anular: cancel 0.95
es cerrar cierra: close 0.95
es invitar: invite 0.95
es asignar: assign 0.95
es aprobar: approve 0.95
es compartir: share 0.95
es mover: move 0.95
es copiar: copy 0.95 duplicate 0.7
es comentar: comment 0.95
es publicar: publish 0.95
es reembolsar reembolso reembolsos devolución: refund 0.95
es factura facturas: invoice 0.95
es cliente clientes: customer 0.95
es pago pagos: payment 0.95
es pedido pedidos: order 0.95
es producto productos: product 0.95
es precio precios: price 0.95
es suscripción suscripciones: subscription 0.95
es mensaje mensajes: message 0.95
es correo correos: email 0.95
es archivo archivos fichero ficheros: file 0.95
es carpeta carpetas directorio: folder 0.95
es calendario calendarios: calendar 0.95
es evento eventos cita citas: event 0.95 appointment 0.7
es reunión reuniones: meeting 0.95 event 0.7
es usuario usuarios usuaria: user 0.95
es miembro miembros: member 0.95
es grupo grupos: group 0.95
es cuenta cuentas: account 0.95
es contacto contactos: contact 0.95
es tarea tareas: task 0.95
es comentario comentarios: comment 0.95
es incidencia incidencias problema problemas: issue 0.95 ticket 0.7
es solicitud solicitudes: request 0.9
es repositorio repositorios: repository 0.95
es hoja hojas tabla: sheet 0.9 spreadsheet 0.8 table 0.8
es fila filas: row 0.95
es plantilla plantillas: template 0.95
es informe informes: report 0.95
es contrato contratos: contract 0.95
es ajuste ajustes configuración: setting 0.95 configuration 0.8
es envío envíos: shipment 0.95 shipping 0.8
es sobre: envelope 0.9
es proyecto proyectos: project 0.95
es rama ramas: branch 0.95
`

// foreignStops are words of other languages that say nothing about a document, as stopWord has those of English. They
// count as such only in a query with a word of the language, because English has some of them in another meaning.
const foreignStops = `
de der die das den dem des ein eine einen einem einer eines und oder für fuer mit von vom zu zum zur im auf aus an am
de bei nach über ueber meine meinen mein ich bitte wie
fr le la les l un une des de du d et ou pour avec à au aux dans sur par en mon ma mes je s il vous plaît ce cette à jour
es el la los las un una unos unas de del y o para con a al en por mi mis yo favor este esta
`

// languages are the languages of foreignLines, each a bit.
type languages uint8

const (
	german languages = 1 << iota
	french
	spanish
)

func languageOf(code string) languages {
	switch code {
	case "de":
		return german
	case "fr":
		return french
	default:
		return spanish
	}
}

// foreign is what is known of a word of other languages.
type foreign struct {
	// of are the languages that have the word, and stops those in which it says nothing.
	of, stops languages
	english   []synonym
}

// readForeign returns the words of other languages, as the splitter returns them.
func readForeign(english map[string][]synonym) map[string]foreign {
	table := map[string]foreign{}
	s := newSplitter()
	each := func(lines string, fn func(language languages, word, rest string)) {
		for line := range strings.Lines(lines) {
			words, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
			fields := strings.Fields(words)
			for _, text := range fields[min(1, len(fields)):] {
				for _, w := range s.split(text, maxQuery, false) {
					fn(languageOf(fields[0]), string(w.text), rest)
				}
			}
		}
	}
	each(foreignLines, func(language languages, word, rest string) {
		known := table[word]
		known.of |= language
		found := readPairs(rest)
		for _, of := range english[found[0].stem] {
			found = append(found, synonym{of.stem, of.weight * found[0].weight})
		}
		known.english = append(known.english, found...)
		table[word] = known
	})
	each(foreignStops, func(language languages, word, _ string) {
		known := table[word]
		known.stops |= language
		table[word] = known
	})
	return table
}

// languagesOf returns the languages of which the words of a query are.
func (s *scratch) languagesOf() (out languages) {
	for _, w := range s.raw {
		out |= s.foreign[string(w)].of
	}
	return out
}
